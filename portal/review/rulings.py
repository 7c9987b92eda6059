"""What a verdict becomes when a reviewer decides otherwise. Pure functions; what the verifier saw stays as it is."""

from __future__ import annotations

from verifier.reward import compute_capture, compute_reward
from verifier.verdict import FailureCode, FailureMode, Outcome, Verdict

# A run is rejected for these; slower than a target is not a rejection, and a fault of ours is no verdict.
REJECTING = [code for code in FailureCode if code.mode not in (FailureMode.INFRASTRUCTURE, FailureMode.BELOW_TARGET)]


def _list_shortfalls(speedup: float | None, target: float | None) -> list[FailureCode]:
    if speedup is None:
        return []
    if speedup <= 1.0:
        return [FailureCode.PERF_SLOWER_THAN_BASELINE]
    return [FailureCode.PERF_BELOW_TARGET] if target is not None and speedup < target else []


def rule_accepted(verdict: Verdict, *, timed: bool) -> Verdict:
    """Return `verdict` as if every gate before performance had passed: what was measured counts.

    Raises ValueError when speed counts in its environment and none was measured.
    """
    speedup, target = verdict.measured_speedup, verdict.target
    if timed and speedup is None:
        raise ValueError("Nothing was timed, so there is no speed to count. Have the run verified again.")
    failures = _list_shortfalls(speedup, target)
    outcome = Outcome.ACCEPTED if speedup is None or target is None else Outcome.PASSED
    measurable = speedup is not None and speedup > 0.0 and target is not None and target > 1.0
    changes = {
        "outcome": Outcome.BELOW_TARGET if failures else outcome,
        "failures": failures,
        "speedup": speedup,
        "capture": compute_capture(speedup, target) if measurable and speedup and target else None,
        "reward": compute_reward(failures, speedup, target),
    }
    return verdict.model_copy(update=changes)


def rule_rejected(verdict: Verdict, code: FailureCode) -> Verdict:
    """Return `verdict` as a rejection for `code`: no speed counts, and what the stopwatch said stays."""
    changes = {
        "outcome": Outcome.REJECTED,
        "failures": [code],
        "speedup": None,
        "capture": None,
        "reward": compute_reward([code], None, verdict.target),
    }
    return verdict.model_copy(update=changes)
