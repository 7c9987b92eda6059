"""Verdicts as a verifier would give them, for tests of what the portal does with them."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from verifier.verdict import Check, FailureCode, Gate, GateResult, GateStatus, Outcome, Verdict

if TYPE_CHECKING:
    # The fake verifier builds verdicts where there is no Django.
    from portal.runs.models import Run

SOURCE = "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    pass\n"
# A real verdict of an H200, less what names the host. How many calls were queued follows from the verifier's rule.
TIMED = Path(__file__).parent / "verdicts" / "sparsemax_h200.json"
GATES = [
    GateResult(
        gate=gate,
        status=GateStatus.NOT_TIMED if gate is Gate.PERFORMANCE else GateStatus.PASSED,
        checks=[Check(name="example", label="An example", passed=True, observed=1, allowed=2)],
        seconds=0.5,
    )
    for gate in Gate
]


def build_verdict(
    task: str = "l1-09", environment: str = "cpu-interpreter", source: str = SOURCE, **given: Any
) -> Verdict:
    """Return an accepted verdict for `source`, with the fields in `given` in place of the usual ones."""
    usual = {
        "task": task,
        "environment": environment,
        "solution_sha256": hashlib.sha256(source.encode()).hexdigest(),
        "verifier_version": "test",
        "started_at": datetime(2026, 1, 2, 3, 4, tzinfo=UTC),
        "seconds": 2.5,
        "outcome": Outcome.ACCEPTED,
        "gates": GATES,
    }
    return Verdict(**usual | given)


def judge(run: Run, **given: Any) -> Verdict:
    """Return a verdict for `run`."""
    return build_verdict(run.task_id, run.environment_id, run.source.text, **given)


def judge_timed(run: Run, timing: dict[str, Any] | None = None, **given: Any) -> Verdict:
    """Return for `run` what an H200 once said of the certified solution, with `timing` and other fields changed."""
    body = json.loads(TIMED.read_bytes())
    body |= {"task": run.task_id, "environment": run.environment_id, "solution_sha256": run.source_id} | given
    body["evidence"]["timing"] |= timing or {}
    return Verdict.model_validate(body)


def reject(run: Run, *codes: FailureCode, **given: Any) -> Verdict:
    """Return a verdict that rejects `run`."""
    return judge(run, outcome=Outcome.REJECTED, failures=list(codes or (FailureCode.STALE_CONSTANT,)), **given)
