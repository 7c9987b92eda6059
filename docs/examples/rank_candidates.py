"""Rank the files of a folder by their reward for a task: `python docs/examples/rank_candidates.py l1-09 candidates/`.

The same loop serves a search or a trainer. Where nothing is timed, every accepted file gets 0.1; name the environment of
a GPU as third argument to have speed count.
"""

from __future__ import annotations

import sys
from pathlib import Path

from verifier.rewards import NoReward, reward


def main(arguments: list[str]) -> None:
    """Print the reward and name of each file, the best first; those without one are to be tried again."""
    task, folder, environment = (*arguments, "cpu-interpreter")[:3]
    ranking = []
    for path in sorted(Path(folder).glob("*.py")):
        try:
            ranking.append((reward(task, path, environment), path.name))
        except NoReward as error:
            # This host failed and not the file: a 0 would teach the wrong thing.
            print(f"{path.name}: {error}", file=sys.stderr)
    for value, name in sorted(ranking, reverse=True):
        print(f"{value:.4f} {name}")


if __name__ == "__main__":
    main(sys.argv[1:])
