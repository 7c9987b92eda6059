"""Gate 4 in an environment that cannot measure speed."""

from __future__ import annotations

from verifier.verdict import Gate, GateResult, GateStatus

NOT_TIMED = "not timed in this environment"


def report_not_timed() -> GateResult:
    """Return the result of gate 4 where nothing is timed: no figure, no estimate."""
    return GateResult(gate=Gate.PERFORMANCE, status=GateStatus.NOT_TIMED, note=NOT_TIMED)
