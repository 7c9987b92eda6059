"""A verifier for tests of what is around it: it does what the first line of the submission says, and judges nothing.

`# do: accept`, `reject`, `infrastructure CODE`, `refuse`, `exit`, `chatter`, `flood`, `other-task`, `slow SECONDS`,
`rounds`, `wait SECONDS`, `hang`. As a doctor it finds fault with one environment only.
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

UNFIT = "l40s"


def tell(event: str, seconds: float, **fields: object) -> None:
    sys.stderr.write(json.dumps({"t": seconds, "event": event} | fields) + "\n")
    sys.stderr.flush()


def report(gate: Gate, state: str, seconds: float) -> None:
    tell("gate", seconds, gate=gate, state=state)


def decide(order: str, argument: str, task: str, environment: str, source: str) -> Verdict:
    """Return the verdict that the submission asks for."""
    match order:
        case "reject":
            failures = [FailureCode.STALE_CONSTANT]
            return build_verdict(task, environment, source, outcome=Outcome.REJECTED, failures=failures)
        case "infrastructure":
            failures = [FailureCode(argument)]
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
        case "refuse":
            error = {"message": "unprivileged user namespaces are switched off", "fix": "run: kq doctor"}
            sys.stdout.write(json.dumps({"schema": "kernelquest.error/1", "ok": False, "exit": 3, "error": error}))
            sys.exit(3)
        case "chatter":
            sys.stderr.buffer.write(b"x" * 10_000 + b'{"event": "gate"}\nnot json \0 \xff\n')
            unknown = {"t": 1, "event": "gate", "gate": "backdoor", "state": "passed"}
            sys.stderr.write(json.dumps(unknown) + "\n")
        case "flood":
            sys.stdout.write("x" * 5_000_000)
        case "slow":
            time.sleep(float(argument))
        case "wait":
            tell("waiting", 0.1, **{"for": "the GPU"})
            time.sleep(float(argument))
        case "rounds":
            report(Gate.PERFORMANCE, "started", 0.1)
            for number in range(1, 6):
                tell("timing", 0.1, round=number, of=4)
        case "hang":
            # A child in the same group, named by the submission's path, so that a test sees whether it is left.
            subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", path])
            time.sleep(600)


def examine(environment: str) -> None:
    """Answer like `python -m verifier doctor --environment SLUG --json`."""
    fix = "environment l40s needs an NVIDIA L40S" if environment == UNFIT else ""
    findings = [{"name": "python", "found": "3.12", "fix": ""}, {"name": "gpu", "found": "NVIDIA H200", "fix": fix}]
    sys.stdout.write(json.dumps({"ok": not fix, "findings": findings}))
    sys.exit(3 if fix else 0)


def main(arguments: list[str]) -> None:
    """Answer like `python -m verifier verify TASK FILE --environment SLUG --json --progress jsonl`, or as a doctor."""
    if arguments[0] == "doctor":
        examine(arguments[2])
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
    sys.stdout.write(decide(order, argument, task, environment, source).to_json())


if __name__ == "__main__":
    main(sys.argv[1:])
