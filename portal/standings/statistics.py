"""Statistics of standings. Pure functions on plain numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from scipy.stats import binomtest


class Interval(NamedTuple):
    """A two-sided interval. A Wilson interval is not centred on the rate: print both ends."""

    low: float
    high: float

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2


def wilson_interval(successes: int, total: int, confidence: float = 0.95) -> Interval:
    """Return the Wilson score interval of a rate, as shares from 0 to 1.

    Treats the runs as independent (Wilson 1927). Raises ValueError unless 0 <= successes <= total and total > 0.
    """
    if total < 1 or not 0 <= successes <= total:
        raise ValueError(f"no rate in {successes} of {total}")
    interval = binomtest(successes, total).proportion_ci(confidence, method="wilson")
    return Interval(float(interval.low), float(interval.high))


def geometric_mean(ratios: Iterable[float]) -> float:
    """Return the geometric mean of speedups. Raises ValueError for none, or for one that is not positive and finite."""
    values = list(ratios)
    if not values or not all(0 < value < math.inf for value in values):
        raise ValueError("a geometric mean needs at least one ratio, all of them positive and finite")
    return math.exp(math.fsum(math.log(value) for value in values) / len(values))
