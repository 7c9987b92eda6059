from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from portal.standings.statistics import (
    FEWEST_TASKS,
    Interval,
    adjust_p_values,
    adjust_speedup,
    average_speedups,
    bootstrap_interval,
    bootstrap_ratios,
    compare_paired,
    count_solved,
    estimate_pass_all,
    estimate_pass_any,
    geometric_mean,
    rank_intervals,
    rank_systems,
    wilson_interval,
)


class System(NamedTuple):
    """A published system: tasks with 0, 1, 2 and 3 passed runs of 3, which follow from the published counts."""

    histogram: tuple[int, int, int, int]
    passed: int
    pass_any: float
    pass_all: float
    clustered_half_width: float

    @property
    def passes(self) -> list[int]:
        return [count for count, tasks in enumerate(self.histogram) for _ in range(tasks)]


SYSTEMS = [
    System((12, 20, 23, 45), 201, 0.8133, 0.45, 6.98),
    System((54, 24, 12, 10), 78, 0.38, 0.1, 6.6),
    System((63, 17, 15, 5), 62, 0.3133, 0.05, 6.0),
    System((70, 16, 12, 2), 46, 0.2467, 0.02, 5.12),
]
shares = st.integers(0, 3).map(lambda count: count / 3)
pairs = st.lists(st.tuples(shares, shares), min_size=2, max_size=10)


@pytest.mark.parametrize(
    ("successes", "low", "high", "half_width"),
    [(201, 61.49, 72.08, 5.29), (78, 21.36, 31.24, 4.94), (62, 16.47, 25.61, 4.57), (46, 11.70, 19.85, 4.07)],
)
def test_wilson_reproduces_the_published_intervals(successes: int, low: float, high: float, half_width: float) -> None:
    interval = wilson_interval(successes, 300)
    assert [round(100 * end, 2) for end in interval] == [low, high]
    assert round(100 * interval.half_width, 2) == pytest.approx(half_width, abs=0.011)


@given(st.integers(1, 2000).flatmap(lambda total: st.tuples(st.integers(0, total), st.just(total))))
def test_wilson_agrees_with_its_formula(case: tuple[int, int]) -> None:
    successes, total = case
    z, rate = 1.959963984540054, successes / total
    centre = (rate + z * z / (2 * total)) / (1 + z * z / total)
    half = z * math.sqrt(rate * (1 - rate) / total + z * z / (4 * total * total)) / (1 + z * z / total)
    low, high = wilson_interval(successes, total)
    assert low == pytest.approx(max(0.0, centre - half), abs=1e-9)
    assert high == pytest.approx(min(1.0, centre + half), abs=1e-9)
    assert 0 <= low <= rate <= high <= 1


@pytest.mark.parametrize(("successes", "total"), [(0, 0), (3, 2), (-1, 5)])
def test_wilson_refuses_what_is_no_rate(successes: int, total: int) -> None:
    with pytest.raises(ValueError, match="no rate"):
        wilson_interval(successes, total)


def test_geometric_mean_is_the_root_of_the_product() -> None:
    assert geometric_mean([2.0, 8.0]) == pytest.approx(4.0)
    assert geometric_mean([1.63]) == pytest.approx(1.63)


@pytest.mark.parametrize("ratios", [[], [1.0, 0.0], [-2.0], [math.inf], [math.nan]])
def test_geometric_mean_refuses_what_it_cannot_average(ratios: list[float]) -> None:
    with pytest.raises(ValueError, match="geometric mean"):
        geometric_mean(ratios)


@pytest.mark.parametrize("system", SYSTEMS)
def test_solved_tasks_and_pass_at_k_reproduce_the_published_figures(system: System) -> None:
    once, twice = (count_solved(system.passes, at_least) for at_least in (1, 2))
    assert sum(system.passes) == system.passed
    assert once + twice + count_solved(system.passes, 3) == system.passed
    assert estimate_pass_any(system.passes, 3, 1) == pytest.approx(system.passed / 300)
    assert estimate_pass_any(system.passes, 3, 2) == pytest.approx(system.pass_any, abs=5e-5)
    assert estimate_pass_any(system.passes, 3, 3) == pytest.approx(once / 100)
    assert estimate_pass_all(system.passes, 3, 3) == pytest.approx(system.pass_all)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=20))
def test_more_draws_make_any_pass_likelier_and_all_passes_rarer(passes: list[int]) -> None:
    some, every = ([estimate(passes, 5, k) for k in range(1, 6)] for estimate in (estimate_pass_any, estimate_pass_all))
    assert some == sorted(some)
    assert every == sorted(every, reverse=True)
    assert some[0] == pytest.approx(every[0])


@pytest.mark.parametrize(("passes", "runs", "draws"), [([], 3, 1), ([4], 3, 1), ([1], 3, 4), ([1], 3, 0)])
def test_pass_at_k_refuses_what_cannot_be(passes: list[int], runs: int, draws: int) -> None:
    for estimate in (estimate_pass_any, estimate_pass_all):
        with pytest.raises(ValueError, match=r"draws|passes"):
            estimate(passes, runs, draws)


def test_every_task_weighs_the_same_in_a_mean_speedup() -> None:
    mean = average_speedups({"a": [2.0, 2.0, 2.0], "b": [8.0], "c": []}, 4)
    assert mean is not None
    assert mean.mean == pytest.approx(4.0)
    assert (mean.covered, mean.tasks) == (2, 4)
    assert mean.adjusted == pytest.approx(2.0)
    assert average_speedups({"a": []}, 4) is None
    with pytest.raises(ValueError, match="2 covered tasks of 1"):
        average_speedups({"a": [2.0], "b": [8.0]}, 1)


@pytest.mark.parametrize(
    ("mean", "coverage", "adjusted"), [(3.10, 0.93, 2.86), (2.32, 0.71, 1.82), (1.93, 0.63, 1.51), (2.19, 0.70, 1.73)]
)
def test_the_adjusted_mean_takes_what_is_missing_as_no_gain(mean: float, coverage: float, adjusted: float) -> None:
    assert adjust_speedup(mean, coverage) == pytest.approx(adjusted, abs=0.005)


@pytest.mark.parametrize("system", SYSTEMS)
def test_drawing_tasks_agrees_with_the_error_of_a_mean_over_tasks(system: System) -> None:
    passes = np.array([system.passes]).T
    interval = bootstrap_interval(bootstrap_ratios(passes, np.full_like(passes, 3))[:, 0])
    assert interval is not None
    assert 100 * interval.half_width == pytest.approx(system.clustered_half_width, abs=0.35)
    assert interval.low < system.passed / 300 < interval.high


def test_draws_without_a_run_are_unknown() -> None:
    samples = bootstrap_ratios([[1, 0], [1, 0]], [[1, 0], [1, 0]])
    assert (samples[:, 0] == 1).all()
    assert bootstrap_interval(samples[:, 1]) is None


def test_one_draw_of_tasks_serves_all_systems() -> None:
    passed = [[task % 4, task % 4] for task in range(20)]
    samples = bootstrap_ratios(passed, np.full((20, 2), 3))
    assert (samples[:, 0] == samples[:, 1]).all()


def test_only_the_leader_of_the_published_systems_is_settled() -> None:
    # The tasks are sorted by difficulty for every system: the order of the published tasks is not known.
    passed = np.array([system.passes for system in SYSTEMS]).T
    ranks = rank_systems(passed, np.full_like(passed, 3))
    assert [rank.place for rank in ranks] == [1, 2, 3, 4]
    assert ranks[0] == (1, 1, 1)


def test_equal_rates_share_the_better_place_and_systems_without_runs_come_last() -> None:
    passed = [[3, 3, 0, 0]] * FEWEST_TASKS
    runs = [[3, 3, 0, 3]] * FEWEST_TASKS
    assert [rank.place for rank in rank_systems(passed, runs)] == [1, 1, 4, 3]


def test_few_tasks_settle_no_order() -> None:
    ranks = rank_systems([[3, 0]] * (FEWEST_TASKS - 1), [[3, 3]] * (FEWEST_TASKS - 1))
    assert ranks == [(1, 1, 2), (1, 2, 2)]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(st.integers(0, 3), min_size=3, max_size=3), min_size=FEWEST_TASKS, max_size=15))
def test_a_rank_lies_in_its_interval_and_follows_the_rate(passed: list[list[int]]) -> None:
    ranks = rank_systems(passed, np.full((len(passed), 3), 3))
    totals = np.sum(passed, axis=0)
    for rank in ranks:
        assert 1 <= rank.best <= rank.place <= rank.worst <= 3
    for (one, first), (two, second) in itertools.combinations(zip(totals, ranks, strict=True), 2):
        assert (one > two) == (first.place < second.place)


def test_intervals_that_meet_leave_the_place_open() -> None:
    rates = [system.passed / 300 for system in SYSTEMS]
    ranks = rank_intervals(rates, [wilson_interval(system.passed, 300) for system in SYSTEMS])
    assert ranks == [(1, 1, 1), (2, 2, 3), (2, 3, 4), (3, 4, 4)]
    assert rank_intervals([0.5, 0.5], [Interval(0.4, 0.6)] * 2) == [(1, 1, 2), (1, 1, 2)]


def test_a_paired_comparison_reproduces_a_hand_calculation() -> None:
    found = compare_paired([1, 1, 1, 1, 0], [0, 0, 0, 0, 0])
    assert found.difference == pytest.approx(0.8)
    assert (found.tasks, found.won, found.lost) == (5, 4, 0)
    # The standard error is 0.2 and Student's quantile for 4 degrees of freedom 2.7764.
    assert list(found.interval) == pytest.approx([0.8 - 0.5553, 1.0], abs=1e-3)
    # Of the 16 flips of four signs, two are as extreme.
    assert found.p_value == pytest.approx(2 / 16)


@settings(deadline=None)
@given(pairs)
def test_swapping_the_two_turns_the_sign_and_nothing_else(cases: list[tuple[float, float]]) -> None:
    first, second = zip(*cases, strict=True)
    one, two = compare_paired(first, second), compare_paired(second, first)
    assert one.difference == pytest.approx(-two.difference)
    assert (one.won, one.lost) == (two.lost, two.won)
    assert one.p_value == pytest.approx(two.p_value)
    assert 0 < one.p_value <= 1
    assert one.interval.low <= one.difference <= one.interval.high


def test_equal_systems_do_not_differ() -> None:
    found = compare_paired([1 / 3, 1, 0], [1 / 3, 1, 0])
    assert (found.difference, found.p_value, tuple(found.interval)) == (0, 1, (0, 0))


@pytest.mark.parametrize(("first", "second"), [([], []), ([1.0], [0.0]), ([1.0, 0.0], [1.0])])
def test_a_comparison_needs_two_tasks_of_both(first: list[float], second: list[float]) -> None:
    with pytest.raises(ValueError, match="no pairs"):
        compare_paired(first, second)


def test_p_values_of_several_pairs_are_adjusted_by_holm() -> None:
    assert adjust_p_values([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert adjust_p_values([]) == []


@given(st.lists(st.floats(0, 1), max_size=8))
def test_adjusted_p_values_keep_their_order_and_never_fall(values: list[float]) -> None:
    adjusted = adjust_p_values(values)
    assert all(value <= new <= 1 for value, new in zip(values, adjusted, strict=True))
    order = sorted(range(len(values)), key=lambda index: values[index])
    assert [adjusted[index] for index in order] == sorted(adjusted)
