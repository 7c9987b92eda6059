"""The fixed texts of an exported task: images, scripts, and what an agent and an evaluator are told."""

from __future__ import annotations

HEAD = """schema_version = "1.4"
artifacts = [
  { source = "/workspace/submission", destination = "submission", exclude = ["*.cubin", "__pycache__"] },
  { source = "/workspace/.kq", destination = "kq", exclude = ["tasks", "lock"] },
]
"""

_BASE = """# The compiler that Triton calls comes with this image.
FROM python:{python}-bookworm
COPY requirements.txt /opt/kernelquest/requirements.txt
RUN pip install --no-cache-dir --require-hashes -r /opt/kernelquest/requirements.txt
COPY kernelquest /opt/kernelquest
ENV PYTHONPATH=/opt/kernelquest PYTHONDONTWRITEBYTECODE=1
"""

AGENT_IMAGE = (
    _BASE
    + """COPY kq /usr/local/bin/kq
RUN useradd --create-home agent \\
 && python -m verifier.exports.seat create {task} /workspace {environment}{target} \\
 && chown -R agent:agent /workspace
WORKDIR /workspace
"""
)

VERIFIER_IMAGE = (
    _BASE
    + """COPY . /tests/
RUN mkdir -p /workspace/submission
WORKDIR /workspace
"""
)

COMMAND = """#!/bin/sh
# The hour begins with the first command.
python -m verifier.exports.seat begin /workspace
exec python -m verifier "$@"
"""

# The places can be others when it is run by hand.
TEST = """#!/bin/sh
exec python -m verifier.exports.grade {task} "${{KQ_SOLUTION:-/workspace/submission/solution.py}}" \\
  --environment {environment}{target} --out "${{KQ_OUT:-/logs/verifier}}"
"""

SOLVE = """#!/bin/sh
set -e
submission="${KQ_SUBMISSION:-/workspace/submission}"
mkdir -p "$submission"
cp "$(dirname "$0")/solution.py" "$submission/solution.py"
"""


def describe_hand_in(target: float | None, environment: str) -> str:
    """Return what an agent is told beside the task itself."""
    goal = "" if target is None else f" The target is {target:g} times the faster of eager and compiled PyTorch."
    return f"""
## Where you are, and how to hand in

You work in `/workspace` on one {environment}, for at most 60 minutes.{goal}
What lies in `/workspace/submission/solution.py` when the time is over is judged, on inputs that you have not seen too;
the folder is there and empty. `AGENTS.md` shows the way with the command `kq`: `kq check` and `kq bench` judge your file
on visible inputs, and `kq submit solution.py` puts it into place, whole or not at all.
"""


def describe_package(official: bool) -> str:  # noqa: FBT001  which of the two texts
    """Return the README of a package."""
    kind = (
        "This is the official package. It holds hidden inputs and certified solutions: give it to evaluators only, and "
        "build no public image from it."
        if official
        else "This is the public package: nothing hidden is in it, and its rewards are from visible inputs. They are good "
        "for training and for trying things, and no result of the benchmark."
    )
    return f"""# KernelQuest tasks for Harbor

{kind}

Each folder is a task for Harbor 0.25 or newer. One GPU serves one trial at a time, or the times are worth nothing:

```
harbor run -p . -n 1 -a oracle
```

{"" if official else "The oracle is in the official package only; `-a nop` must get 0 here. "}The verifier runs in an image
of its own, without network, and reads only what the agent left in `/workspace/submission`. It writes `reward.json`, flat
numbers alone, and `verdict.json` beside it with all evidence. When the host fails it writes no reward: run such a trial
again. Submissions run in a sandbox of user namespaces, which the container must be allowed to make; `kq doctor` in the
image says whether it can. Agents reach their models from inside, so the agent's phase has a network: narrow it to the
hosts of the model when you run it. `kernelquest.json` lists the tasks with Harbor's digests, by which an import tells
whether a trial was of these very tasks.
"""
