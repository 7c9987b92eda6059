"""The verifier of an exported task: reads what the agent left, and writes reward.json and verdict.json.

A reward is written for every verdict and for none else: when the host failed there is no file, so that whoever runs
the task sees an exception and runs it again, in place of a 0 that the agent did not earn.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from verifier.bundle import BundleError, read_file
from verifier.environment import load_environment
from verifier.exits import Exit
from verifier.rewards import NoReward, list_figures, rate
from verifier.sandbox import SandboxUnavailable
from verifier.task import load_task

REWARD, VERDICT = "reward.json", "verdict.json"


def grade(task: str, solution: Path, environment: str, out: Path, target: float | None = None) -> dict[str, float]:
    """Write what a solution earns below `out`, and return it. Raises NoReward and SandboxUnavailable."""
    found, specification = load_task(task), load_environment(environment)
    for name in (REWARD, VERDICT):
        (out / name).unlink(missing_ok=True)
    out.mkdir(parents=True, exist_ok=True)
    try:
        data = read_file(solution)
    except BundleError as error:
        figures = list_figures([error.code], None, target, timed=specification.timed)
    else:
        figures, verdict = rate(found, data, specification, target)
        (out / VERDICT).write_text(verdict.to_json(indent=2) + "\n", encoding="utf-8")
    unfinished = out / f".{REWARD}"
    unfinished.write_text(json.dumps(figures) + "\n", encoding="utf-8")
    unfinished.replace(out / REWARD)
    return figures


def main(arguments: list[str] | None = None) -> int:
    """Grade a solution, and return 0 when a reward was written."""
    parser = argparse.ArgumentParser(prog="python -m verifier.exports.grade")
    parser.add_argument("task")
    parser.add_argument("solution", type=Path)
    parser.add_argument("--environment", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--target", type=float)
    given = parser.parse_args(arguments)
    try:
        figures = grade(given.task, given.solution, given.environment, given.out, given.target)
    except (NoReward, SandboxUnavailable) as error:
        sys.stderr.write(f"{error}\nNo reward was written. See what the host lacks: kq doctor\n")
        return Exit.TRANSIENT
    sys.stdout.write(f"{json.dumps(figures)}\n")
    return Exit.OK


if __name__ == "__main__":
    sys.exit(main())
