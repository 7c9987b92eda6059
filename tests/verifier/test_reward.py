"""The properties P1 to P8 that a reward must have, whatever the speed."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verifier.reward import compute_capture, compute_reward
from verifier.verdict import FailureCode, rank_failures

targets = st.floats(1.02, 40.0)
speedups = st.floats(0.05, 100.0)
gate_codes = st.sampled_from([code for code in FailureCode if not code.startswith(("PERF", "INFRA"))])


def reward(speedup: float, target: float) -> float:
    failures = (
        []
        if speedup >= target
        else [FailureCode.PERF_BELOW_TARGET if speedup >= 1 else FailureCode.PERF_SLOWER_THAN_BASELINE]
    )
    value = compute_reward(failures, speedup, target)
    assert value is not None
    return value


@given(speedups, targets)
def test_it_is_bounded(speedup: float, target: float) -> None:
    assert 0.0 <= reward(speedup, target) < 1.0


@given(speedups, speedups, targets)
def test_faster_is_never_worse(left: float, right: float, target: float) -> None:
    slow, fast = sorted((left, right))
    assert reward(slow, target) <= reward(fast, target)


@given(gate_codes, speedups, targets)
def test_a_rejected_run_earns_nothing_by_speed(code: FailureCode, speedup: float, target: float) -> None:
    assert compute_reward([code], speedup, target) == compute_reward([code], None, None)


@given(gate_codes, st.floats(0.001, 0.999), targets)
def test_a_slow_correct_kernel_beats_every_gate_failure(code: FailureCode, speedup: float, target: float) -> None:
    failed = compute_reward([code], None, target)
    assert failed is not None
    assert failed < reward(speedup, target)


def test_stages_are_in_order() -> None:
    codes = [FailureCode.PREC_TF32, FailureCode.ART_SYNTAX, FailureCode.STRUCT_NO_TRITON, FailureCode.CORR_VALUE]
    rewards = [compute_reward([code], None, None) or 0.0 for code in codes]
    assert rewards == sorted(rewards)
    assert len(set(rewards)) == len(rewards)


@given(st.lists(gate_codes, min_size=1, max_size=4))
def test_a_breach_of_integrity_is_worth_the_least(codes: list[FailureCode]) -> None:
    breached = rank_failures([*codes, FailureCode.STALE_CONSTANT])
    assert compute_reward(breached, None, None) == 0.0


@given(st.floats(0.2, 0.99), targets, targets)
def test_the_same_share_of_headroom_pays_the_same(share: float, first: float, second: float) -> None:
    values = []
    for target in (first, second):
        headroom = math.log(target)
        band = min(0.02, headroom / 4)
        values.append(compute_capture(math.exp(band + share * (headroom - band)), target))
    assert values[0] == pytest.approx(values[1], abs=1e-6)


@given(targets)
def test_beating_the_target_saturates(target: float) -> None:
    assert 0.9 <= reward(target, target) <= reward(100 * target, target) < 1.0


def test_a_fault_of_ours_and_an_untimed_run_have_no_reward() -> None:
    assert compute_reward([FailureCode.INFRA_GPU_FAULT], 2.0, 1.5) is None
    assert compute_reward([], None, None) is None


@pytest.mark.parametrize(("speedup", "target"), [(1.0, 1.0), (0.0, 2.0), (-1.0, 2.0)])
def test_a_capture_needs_a_target_and_a_speed(speedup: float, target: float) -> None:
    with pytest.raises(ValueError, match="capture"):
        compute_capture(speedup, target)
