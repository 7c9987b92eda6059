"""A verifier for tests of what is around it: it does what the first line of the submission says, and judges nothing.

`# do: accept`, `reject`, `infrastructure`, `exit`, `chatter`, `flood`, `other-task`, `slow SECONDS`, `hang`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from tests.portal.factories import build_verdict
from verifier.verdict import FailureCode, Gate, Outcome, Verdict


def report(gate: Gate, state: str, seconds: float) -> None:
    line = {"t": seconds, "event": "gate", "gate": gate, "state": state}
    sys.stderr.write(json.dumps(line) + "\n")
    sys.stderr.flush()


def decide(order: str, task: str, environment: str, source: str) -> Verdict:
    """Return the verdict that the submission asks for."""
    match order:
        case "reject":
            failures = [FailureCode.STALE_CONSTANT]
            return build_verdict(task, environment, source, outcome=Outcome.REJECTED, failures=failures)
        case "infrastructure":
            failures = [FailureCode.INFRA_GPU_FAULT]
            return build_verdict(task, environment, source, outcome=Outcome.INFRASTRUCTURE, failures=failures)
        case "other-task":
            return build_verdict("l1-01", environment, source)
    return build_verdict(task, environment, source)


def act(order: str, argument: str, path: str) -> None:
    """Do what the submission asks for before the verdict."""
    match order:
        case "exit":
            sys.stderr.write("the harness is broken\n")
            sys.exit(70)
        case "chatter":
            sys.stderr.buffer.write(b"x" * 10_000 + b'{"event": "gate"}\nnot json \0 \xff\n')
            unknown = {"t": 1, "event": "gate", "gate": "backdoor", "state": "passed"}
            sys.stderr.write(json.dumps(unknown) + "\n")
        case "flood":
            sys.stdout.write("x" * 5_000_000)
        case "slow":
            time.sleep(float(argument))
        case "hang":
            # A child in the same group, named by the submission's path, so that a test sees whether it is left.
            subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", path])
            time.sleep(600)


def main(arguments: list[str]) -> None:
    """Answer like `python -m verifier verify TASK FILE --environment SLUG --json --progress jsonl`."""
    verb, task, path, flag, environment, *rest = arguments
    if (verb, flag, rest) != ("verify", "--environment", ["--json", "--progress", "jsonl"]):
        sys.exit(f"unexpected arguments: {arguments}")
    if leaked := {"DATABASE_URL", "PORTAL_SECRET_KEY"} & set(os.environ):
        sys.exit(f"secrets reached the verifier: {leaked}")
    source = Path(path).read_bytes().decode()
    order, _, argument = source.splitlines()[0].removeprefix("# do: ").partition(" ")
    report(Gate.INTAKE, "started", 0.1)
    act(order, argument, path)
    report(Gate.INTAKE, "passed", 0.2)
    report(Gate.STRUCTURAL, "started", 0.3)
    sys.stdout.write(decide(order, task, environment, source).to_json())


if __name__ == "__main__":
    main(sys.argv[1:])
