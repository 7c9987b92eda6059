from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.standings.statistics import geometric_mean, wilson_interval


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
