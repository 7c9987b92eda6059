"""The properties P1 to P8 that a reward must have, whatever the speed: the names of the tests say which."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, given
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


@given(speedups, targets, st.lists(gate_codes, max_size=3))
def test_p1_it_is_bounded(speedup: float, target: float, codes: list[FailureCode]) -> None:
    assert 0.0 <= reward(speedup, target) < 1.0
    rejected = compute_reward([*codes, FailureCode.CORR_VALUE], speedup, target)
    assert rejected is not None
    assert 0.0 <= rejected < 1.0


@given(speedups, speedups, targets)
def test_p2_faster_is_never_worse(left: float, right: float, target: float) -> None:
    slow, fast = sorted((left, right))
    assert reward(slow, target) <= reward(fast, target)


@given(speedups, st.floats(1.001, 2.0), targets)
def test_p2_faster_is_better_outside_the_dead_band(slow: float, factor: float, target: float) -> None:
    fast = slow * factor
    band = math.exp(min(0.02, math.log(target) / 4))
    assume(not 1.0 <= slow < fast <= band)
    assert reward(slow, target) < reward(fast, target)


@given(targets)
def test_p2_the_only_jump_is_at_the_target(target: float) -> None:
    assert reward(target, target) - reward(target * (1 - 1e-9), target) == pytest.approx(0.10, abs=1e-6)
    assert reward(1.0, target) - reward(1.0 - 1e-9, target) == pytest.approx(0.0, abs=1e-6)


def group_by_stage() -> list[list[FailureCode]]:
    """Return the codes of rejected runs, worst stage first: integrity, unloadable, structural, correctness."""
    honest = {FailureCode.STRUCT_NO_TRITON, FailureCode.STRUCT_LIBRARY_OFFLOAD}
    nothing = {FailureCode.ART_MISSING_FILE, FailureCode.ART_BAD_BUNDLE}
    rejected = [code for code in FailureCode if not code.startswith(("PERF_SLOWER", "PERF_BELOW_TARGET", "INFRA"))]
    unloadable = [code for code in rejected if code.startswith("ART_") and code not in nothing]
    incorrect = [code for code in rejected if code.startswith("CORR_")]
    least = [code for code in rejected if code not in {*honest, *unloadable, *incorrect}]
    return [least, unloadable, sorted(honest), incorrect]


STAGES = group_by_stage()


@given(st.tuples(*map(st.sampled_from, STAGES)), st.floats(0.05, 0.99), st.floats(1.001, 2.0), targets)
def test_p3_stages_are_in_order(codes: tuple[FailureCode, ...], slower: float, beyond: float, target: float) -> None:
    rejected = [compute_reward([code], None, target) or 0.0 for code in codes]
    accepted = [reward(speedup, target) for speedup in (slower, target**0.9, target, beyond * target)]
    ordered = [*rejected, *accepted]
    assert ordered == sorted(set(ordered))


@given(st.lists(gate_codes, min_size=1, max_size=3), speedups, speedups, targets)
def test_p4_the_speed_of_a_rejected_run_does_not_count(
    codes: list[FailureCode], left: float, right: float, target: float
) -> None:
    failures = rank_failures([*codes, FailureCode.PERF_BELOW_TARGET])
    assert compute_reward(failures, left, target) == compute_reward(failures, right, target)
    assert compute_reward(failures, left, target) == compute_reward(codes, None, None)


@given(st.lists(gate_codes, max_size=4), st.sampled_from(STAGES[0]), speedups, targets)
def test_p5_a_breach_of_integrity_is_worth_the_least(
    codes: list[FailureCode], breach: FailureCode, speedup: float, target: float
) -> None:
    assert compute_reward(rank_failures([*codes, breach]), speedup, target) == 0.0
    assert compute_reward([FailureCode.ART_MISSING_FILE], None, None) == 0.0


@given(st.lists(gate_codes, min_size=1, max_size=3), st.floats(0.001, 0.999), targets)
def test_p6_a_slow_correct_kernel_beats_every_gate_failure(
    codes: list[FailureCode], speedup: float, target: float
) -> None:
    failed = compute_reward(rank_failures(codes), None, target)
    assert failed is not None
    assert failed < 0.10 <= reward(speedup, target)


@given(st.floats(0.0, 0.99), targets, targets)
def test_p7_the_same_share_of_headroom_pays_the_same(share: float, first: float, second: float) -> None:
    values = []
    for target in (first, second):
        headroom = math.log(target)
        band = min(0.02, headroom / 4)
        values.append(reward(math.exp(band + share * (headroom - band)), target))
    assert values[0] == pytest.approx(values[1], abs=1e-6)


@given(targets, st.floats(1.0, 1e6))
def test_p8_beating_the_target_saturates(target: float, factor: float) -> None:
    assert reward(factor * target, target) == pytest.approx(0.90 + 0.10 * (1 - 1 / factor))
    assert reward(factor * target, target) < 1.0


def test_p8_at_known_figures() -> None:
    assert reward(1.70, 1.63) == pytest.approx(0.904, abs=5e-4)
    assert reward(27.86, 1.63) == pytest.approx(0.994, abs=5e-4)


def test_a_fault_of_ours_and_an_untimed_run_have_no_reward() -> None:
    assert compute_reward([FailureCode.INFRA_GPU_FAULT], 2.0, 1.5) is None
    assert compute_reward([], None, None) is None


@pytest.mark.parametrize(("speedup", "target"), [(1.0, 1.0), (0.0, 2.0), (-1.0, 2.0)])
def test_a_capture_needs_a_target_and_a_speed(speedup: float, target: float) -> None:
    with pytest.raises(ValueError, match="capture"):
        compute_capture(speedup, target)
