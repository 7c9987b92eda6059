from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verifier.timing import (
    CLOCK_MILLISECONDS,
    CLOCK_WINDOW_MILLISECONDS,
    MOST_QUEUED_CALLS,
    MOST_QUEUED_LAUNCHES,
    Agreement,
    choose_queue,
    compare_clocks,
    find_speedup_interval,
    is_near,
    summarise,
)

milliseconds = st.floats(1e-3, 1e3)
sides = st.lists(milliseconds, min_size=2, max_size=12)


def test_a_summary_of_known_figures() -> None:
    summary = summarise([1.0, 2.0, 3.0, 4.0, 5.0])
    assert (summary.mean, summary.median, summary.tenth, summary.ninetieth) == (3.0, 3.0, 1.4, 4.6)
    assert summary.variation == pytest.approx(math.sqrt(2.5) / 3.0)


def test_one_sample_does_not_vary_and_none_is_no_summary() -> None:
    assert summarise([0.5]) == (0.5, 0.5, 0.5, 0.5, 0.0)
    with pytest.raises(ValueError, match="no samples"):
        summarise([])


@given(sides)
def test_a_summary_is_ordered(samples: list[float]) -> None:
    summary = summarise(samples)
    assert min(samples) <= summary.tenth <= summary.median <= summary.ninetieth <= max(samples)
    assert min(samples) * (1 - 1e-9) <= summary.mean <= max(samples) * (1 + 1e-9)
    assert summary.variation >= 0.0


def draw_samples(generator: np.random.Generator, mean: float, count: int) -> list[float]:
    """Return times in milliseconds with 3 % of noise."""
    return list(generator.normal(mean, 0.03 * mean, count))


def test_the_interval_is_deterministic_and_depends_on_its_seed() -> None:
    generator = np.random.default_rng(7)
    baseline, candidate = draw_samples(generator, 2.0, 40), draw_samples(generator, 1.0, 40)
    assert find_speedup_interval(baseline, candidate) == find_speedup_interval(baseline, candidate)
    assert find_speedup_interval(baseline, candidate) != find_speedup_interval(baseline, candidate, seed=1)


def test_the_interval_covers_the_true_ratio_nearly_as_often_as_it_says() -> None:
    generator = np.random.default_rng(11)
    covered, widths = 0, []
    for _ in range(100):
        low, high = find_speedup_interval(draw_samples(generator, 1.7, 50), draw_samples(generator, 1.0, 50))
        covered += low <= 1.7 <= high
        widths.append(high - low)
    # Binomial: of 100 intervals at 95 % fewer than 87 cover once in two thousand tries.
    assert 87 <= covered < 100
    assert np.mean(widths) == pytest.approx(2 * 1.96 * 1.7 * 0.03 * math.sqrt(2 / 50), rel=0.1)


@settings(max_examples=40, deadline=None)
@given(sides, sides)
def test_the_bounds_are_ordered_and_within_what_was_measured(baseline: list[float], candidate: list[float]) -> None:
    low, high = find_speedup_interval(baseline, candidate)
    assert low <= high
    assert min(baseline) / max(candidate) <= low * (1 + 1e-9)
    assert high <= max(baseline) / min(candidate) * (1 + 1e-9)


@settings(max_examples=40, deadline=None)
@given(sides, sides, st.floats(1e-2, 1e2))
def test_the_interval_does_not_depend_on_the_unit(baseline: list[float], candidate: list[float], scale: float) -> None:
    scaled = find_speedup_interval([scale * value for value in baseline], [scale * value for value in candidate])
    assert scaled == pytest.approx(find_speedup_interval(baseline, candidate), rel=1e-9)


@settings(max_examples=40, deadline=None)
@given(sides, st.floats(1e-2, 1e2))
def test_a_side_against_a_multiple_of_itself_covers_the_factor(samples: list[float], factor: float) -> None:
    low, high = find_speedup_interval([factor * value for value in samples], samples)
    assert low * (1 - 1e-9) <= factor <= high * (1 + 1e-9)


def test_swapping_the_sides_inverts_the_interval() -> None:
    generator = np.random.default_rng(3)
    baseline, candidate = draw_samples(generator, 3.0, 60), draw_samples(generator, 1.2, 60)
    low, high = find_speedup_interval(baseline, candidate)
    # Other resamples are drawn, so the bounds agree to the noise of the bootstrap.
    assert find_speedup_interval(candidate, baseline) == pytest.approx((1 / high, 1 / low), rel=3e-3)


EMPTY = [0.9, 1.0, 30.0]


def compare_windows(excess: float) -> Agreement:
    """Return the agreement over three windows of 20 ms, the judge's clock being `excess` milliseconds late in all."""
    return compare_clocks([20.0, 20.0, 20.0], [21.0, 21.0, 21.0 + excess], EMPTY)


def test_the_judge_clock_is_calibrated_by_the_median_empty_window() -> None:
    agreement = compare_windows(0.0)
    assert (agreement.inside, agreement.outside) == (60.0, 60.0)
    assert agreement.allowed_difference == pytest.approx(0.05 * 60.0 + 3 * CLOCK_MILLISECONDS)


@pytest.mark.parametrize("excess", [0.0, 5.9, -5.9])
def test_clocks_agree_within_a_share_and_an_exchange_of_messages_each(excess: float) -> None:
    assert compare_windows(excess).agrees


@pytest.mark.parametrize("excess", [6.1, -6.1, 100.0])
def test_clocks_disagree_beyond_that_on_either_side(excess: float) -> None:
    assert not compare_windows(excess).agrees


def test_no_windows_disagree_about_nothing() -> None:
    assert compare_clocks([], [], EMPTY) == (0.0, 0.0, 0.0)


@given(st.floats(0, 1e4), st.integers(0, 10**5))
def test_a_queue_has_calls_and_fits_the_driver(time: float, launches: int) -> None:
    count = choose_queue(time, launches)
    assert 1 <= count <= MOST_QUEUED_CALLS
    assert count == 1 or count * launches <= MOST_QUEUED_LAUNCHES
    shorter = count < min(MOST_QUEUED_CALLS, MOST_QUEUED_LAUNCHES // max(1, launches))
    assert not shorter or count * max(time, 1e-3) >= CLOCK_WINDOW_MILLISECONDS * (1 - 1e-9)


@pytest.mark.parametrize(
    ("time", "launches", "count"),
    [(1.0, 1, 40), (0.5, 20, 40), (0.001, 1, 300), (0.01, 100, 8), (50.0, 1, 1), (3.0, 900, 1)],
)
def test_a_queue_is_as_long_as_the_window(time: float, launches: int, count: int) -> None:
    assert choose_queue(time, launches) == count


@given(st.floats(1.02, 40.0), st.floats(0.0, 0.0199))
def test_two_percent_around_any_target_are_near(target: float, distance: float) -> None:
    assert is_near((1 + distance) * target, target)
    assert is_near((1 - distance) * target, target)


@given(st.floats(1.02, 40.0), st.floats(0.0201, 0.9))
def test_more_than_two_percent_off_is_not_near(target: float, distance: float) -> None:
    assert not is_near((1 + distance) * target, target)
    assert not is_near((1 - distance) * target, target)
