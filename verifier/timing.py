"""The arithmetic of timing: means, intervals, whether two clocks agree, and when to measure again. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

RESAMPLES = 2_000
CONFIDENCE = 0.95
# Half-width around a target inside which one session does not decide.
NEAR_TARGET = 0.02
MAXIMUM_VARIATION = 0.05
# What the two clocks may differ by: a share of the time, and what one exchange of messages may vary by.
CLOCK_SHARE = 0.05
CLOCK_MILLISECONDS = 1.0
# How long one comparison of the clocks should take, so that an exchange of messages is little of it.
CLOCK_WINDOW_MILLISECONDS = 40.0
MOST_QUEUED_CALLS = 300
# The driver's queue holds about a thousand launches; a host that fills it waits.
MOST_QUEUED_LAUNCHES = 800


class Summary(NamedTuple):
    """Milliseconds of one side; `variation` is the standard deviation over the mean."""

    mean: float
    median: float
    tenth: float
    ninetieth: float
    variation: float


def summarise(samples: Sequence[float]) -> Summary:
    """Return the summary of samples in milliseconds. Raises ValueError when there are none."""
    if not samples:
        raise ValueError("there are no samples")
    values = np.asarray(samples, np.float64)
    tenth, median, ninetieth = (float(value) for value in np.percentile(values, [10, 50, 90]))
    mean = float(values.mean())
    return Summary(mean, median, tenth, ninetieth, float(values.std(ddof=1) / mean) if len(values) > 1 else 0.0)


def find_speedup_interval(baseline: Sequence[float], candidate: Sequence[float], seed: int = 0) -> tuple[float, float]:
    """Return the 95 % percentile-bootstrap interval of mean(baseline) / mean(candidate), both in milliseconds.

    Efron and Tibshirani, An Introduction to the Bootstrap, chapter 13.
    """
    generator = np.random.default_rng(seed)
    means = [
        generator.choice(np.asarray(side, np.float64), (RESAMPLES, len(side))).mean(axis=1)
        for side in (baseline, candidate)
    ]
    tail = (1 - CONFIDENCE) / 2 * 100
    low, high = np.percentile(means[0] / means[1], [tail, 100 - tail])
    return float(low), float(high)


class Agreement(NamedTuple):
    """The two clocks over some windows, in milliseconds: `outside` is the judge's, less what an empty window takes."""

    inside: float
    outside: float
    allowed_difference: float

    @property
    def agrees(self) -> bool:
        return abs(self.outside - self.inside) <= self.allowed_difference


def compare_clocks(inside: Sequence[float], outside: Sequence[float], empty: Sequence[float]) -> Agreement:
    """Return whether the device's readings of some windows agree with the judge's clock, calibrated by empty ones.

    All in milliseconds. The judge's readings contain one exchange of messages, which the median of the empty windows
    tells.
    """
    total = float(np.sum(inside))
    allowed = CLOCK_SHARE * total + CLOCK_MILLISECONDS * len(inside)
    return Agreement(total, float(np.sum(outside)) - len(outside) * float(np.median(empty)), allowed)


def choose_queue(milliseconds: float, launches: int) -> int:
    """Return how many calls to queue for one comparison of the clocks, from one call's time and launches."""
    wanted = math.ceil(CLOCK_WINDOW_MILLISECONDS / max(milliseconds, 1e-3))
    return max(1, min(wanted, MOST_QUEUED_CALLS, MOST_QUEUED_LAUNCHES // max(1, launches)))


def is_near(speedup: float, target: float) -> bool:
    """Return whether a speedup is so near a target that one session does not decide."""
    return abs(speedup / target - 1.0) < NEAR_TARGET
