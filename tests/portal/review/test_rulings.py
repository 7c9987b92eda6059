from __future__ import annotations

import pytest

from portal.review.rulings import REJECTING, rule_accepted, rule_rejected
from tests.portal.factories import build_verdict
from verifier.reward import compute_capture, compute_reward
from verifier.verdict import FailureCode, Outcome, Verdict


def reject(measured: float | None, target: float | None) -> Verdict:
    return build_verdict(
        outcome=Outcome.REJECTED, failures=[FailureCode.PREC_TF32], measured_speedup=measured, target=target
    )


@pytest.mark.parametrize(
    ("measured", "target", "outcome", "codes"),
    [
        (3.0, 2.0, Outcome.PASSED, []),
        (2.0, 2.0, Outcome.PASSED, []),
        (1.5, 2.0, Outcome.BELOW_TARGET, [FailureCode.PERF_BELOW_TARGET]),
        (0.9, 2.0, Outcome.BELOW_TARGET, [FailureCode.PERF_SLOWER_THAN_BASELINE]),
        (3.0, None, Outcome.ACCEPTED, []),
        (0.5, None, Outcome.BELOW_TARGET, [FailureCode.PERF_SLOWER_THAN_BASELINE]),
    ],
)
def test_what_was_measured_counts(
    measured: float, target: float | None, outcome: Outcome, codes: list[FailureCode]
) -> None:
    verdict = rule_accepted(reject(measured, target), timed=True)
    assert (verdict.outcome, verdict.failures, verdict.speedup) == (outcome, codes, measured)
    assert verdict.reward == compute_reward(codes, measured, target)
    assert verdict.capture == (compute_capture(measured, target) if target else None)


def test_where_nothing_is_timed_it_is_accepted() -> None:
    verdict = rule_accepted(reject(None, None), timed=False)
    assert (verdict.outcome, verdict.failures, verdict.speedup, verdict.reward) == (Outcome.ACCEPTED, [], None, None)


def test_without_a_measured_speed_there_is_none_to_count() -> None:
    with pytest.raises(ValueError, match="verified again"):
        rule_accepted(reject(None, 2.0), timed=True)


def test_a_rejection_counts_no_speed_and_keeps_the_stopwatch() -> None:
    passed = build_verdict(outcome=Outcome.PASSED, speedup=3.0, measured_speedup=3.0, target=2.0, capture=1.0)
    verdict = rule_rejected(passed, FailureCode.STALE_CONSTANT)
    assert (verdict.speedup, verdict.capture, verdict.measured_speedup) == (None, None, 3.0)
    assert (verdict.outcome, verdict.failures, verdict.reward) == (
        Outcome.REJECTED,
        [FailureCode.STALE_CONSTANT],
        0.0,
    )


def test_what_the_verifier_saw_stays() -> None:
    before = reject(3.0, 2.0)
    after = rule_accepted(before, timed=True)
    assert (after.gates, after.evidence) == (before.gates, before.evidence)


def test_nobody_rejects_for_being_slow_or_for_our_faults() -> None:
    assert FailureCode.PERF_BELOW_TARGET not in REJECTING
    assert not [code for code in REJECTING if code.is_infrastructure]
    assert FailureCode.PERF_BELOW_FLOOR in REJECTING
