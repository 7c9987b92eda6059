"""Statistics of standings. Pure functions on plain numbers.

Runs of one task are alike, so what is resampled is always the task, with one draw of tasks for all systems. Background:
Miller, Adding Error Bars to Evals (2024); Chen et al., Evaluating Large Language Models Trained on Code (2021), pass@k.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

CONFIDENCE = 0.95
RESAMPLES = 5_000
# With fewer tasks than this, resampling them says too little about the order of systems.
FEWEST_TASKS = 10
# Fixed, so that a page that is loaded again shows the same interval.
_SEED = 20_260_101


class Interval(NamedTuple):
    """A two-sided interval. A Wilson interval is not centred on the rate: print both ends."""

    low: float
    high: float

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2


class Rank(NamedTuple):
    """A place on a board, 1 for the best, and the places between which it is not settled."""

    best: int
    place: int
    worst: int


@dataclass(frozen=True)
class MeanSpeedup:
    """A geometric mean over the tasks that enter it. Never read it without `covered` of `tasks`."""

    mean: float
    covered: int
    tasks: int
    adjusted: float


@dataclass(frozen=True)
class PairedComparison:
    """How much more of the runs of a task one system passes than another, in shares, over the tasks of both."""

    tasks: int
    difference: float
    interval: Interval
    p_value: float
    won: int
    lost: int


# The library tests a hypothesis besides, which takes a millisecond, and pages ask for the same rates again and again.
@lru_cache(maxsize=8_192)
def wilson_interval(successes: int, total: int, confidence: float = CONFIDENCE) -> Interval:
    """Return the Wilson score interval of a rate, as shares from 0 to 1.

    Treats the runs as independent (Wilson 1927). Raises ValueError unless 0 <= successes <= total and total > 0.
    """
    if total < 1 or not 0 <= successes <= total:
        raise ValueError(f"no rate in {successes} of {total}")
    interval = stats.binomtest(successes, total).proportion_ci(confidence, method="wilson")
    return Interval(float(interval.low), float(interval.high))


def geometric_mean(ratios: Iterable[float]) -> float:
    """Return the geometric mean of speedups. Raises ValueError for none, or for one that is not positive and finite."""
    values = list(ratios)
    if not values or not all(0 < value < math.inf for value in values):
        raise ValueError("a geometric mean needs at least one ratio, all of them positive and finite")
    return math.exp(math.fsum(math.log(value) for value in values) / len(values))


def average_speedups(speedups: Mapping[str, Sequence[float]], tasks: int) -> MeanSpeedup | None:
    """Return the geometric mean over tasks of the geometric mean over a task's runs, so that every task weighs the same.

    `speedups` are those of the accepted runs, by task; a task without any is not covered. The adjusted mean takes
    tasks that are not covered as 1.0x. Returns None when no task is covered. Raises ValueError for more covered tasks
    than `tasks`.
    """
    return average_logarithms([math.log(geometric_mean(ratios)) for ratios in speedups.values() if ratios], tasks)


def average_logarithms(logarithms: Sequence[float], tasks: int) -> MeanSpeedup | None:
    """Return the same from the mean logarithm of the speedups of each covered task."""
    covered = len(logarithms)
    if covered > tasks:
        raise ValueError(f"{covered} covered tasks of {tasks}")
    if not covered:
        return None
    mean = math.exp(math.fsum(logarithms) / covered)
    return MeanSpeedup(mean, covered, tasks, adjust_speedup(mean, covered / tasks))


def adjust_speedup(mean: float, coverage: float) -> float:
    """Return a geometric mean over a share `coverage` of the tasks with all others taken as 1.0x."""
    return math.exp(coverage * math.log(mean))


def _check_passes(passes: Sequence[int], runs: int) -> None:
    if not passes or not all(0 <= count <= runs for count in passes):
        raise ValueError(f"passes of a task are between 0 and its {runs} runs, and there is at least one task")


def count_solved(passes: Iterable[int], at_least: int) -> int:
    """Return how many tasks were passed `at_least` so often, given the passed runs of each task."""
    return sum(count >= at_least for count in passes)


def estimate_pass_any(passes: Sequence[int], runs: int, draws: int) -> float:
    """Return pass@k: the chance that at least one of `draws` runs of a task passes, averaged over tasks.

    The unbiased estimate 1 - C(n-c, k) / C(n, k) of Chen et al. 2021. Raises ValueError unless draws <= runs.
    """
    _check_passes(passes, runs)
    if not 1 <= draws <= runs:
        raise ValueError(f"{draws} draws of {runs} runs")
    ways = math.comb(runs, draws)
    return math.fsum(1 - math.comb(runs - count, draws) / ways for count in passes) / len(passes)


def estimate_pass_all(passes: Sequence[int], runs: int, draws: int) -> float:
    """Return pass^k: the chance that all of `draws` runs of a task pass, averaged over tasks. Raises ValueError."""
    _check_passes(passes, runs)
    if not 1 <= draws <= runs:
        raise ValueError(f"{draws} draws of {runs} runs")
    ways = math.comb(runs, draws)
    return math.fsum(math.comb(count, draws) / ways for count in passes) / len(passes)


# Always the same draws, and to make them takes longer than to use them: 4 MB for 100 tasks.
@lru_cache(maxsize=8)
def draw_tasks(tasks: int) -> NDArray[np.float64]:
    """Return how often each of `tasks` is in each of `RESAMPLES` draws, with shape (RESAMPLES, tasks)."""
    draws = np.random.default_rng(_SEED).multinomial(tasks, np.full(tasks, 1 / tasks), size=RESAMPLES).astype(float)
    draws.flags.writeable = False
    return draws


def bootstrap_ratios(numerators: ArrayLike, denominators: ArrayLike) -> NDArray[np.float64]:
    """Return each system's sum of numerators over its sum of denominators, in `RESAMPLES` draws of the tasks.

    Both have shape (tasks, systems): passed runs and runs for a rate; sums of logarithms and counts for a mean. The
    answer has shape (RESAMPLES, systems), with NaN where a draw holds no run of a system. One draw serves all systems,
    so that differences between them are paired by task.
    """
    above, below = np.asarray(numerators, float), np.asarray(denominators, float)
    draws = draw_tasks(above.shape[0])
    totals = draws @ below
    return np.divide(draws @ above, totals, out=np.full(totals.shape, np.nan), where=totals > 0)


def bootstrap_interval(samples: NDArray[np.float64], confidence: float = CONFIDENCE) -> Interval | None:
    """Return the percentile interval of one system's draws, or None when none of them holds a figure."""
    missing = np.isnan(samples)
    known = samples[~missing] if missing.any() else samples
    if not known.size:
        return None
    low, high = np.quantile(known, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(float(low), float(high))


def _place(rates: NDArray[np.float64]) -> NDArray[np.float64]:
    # Equal rates share the better place; a system without a rate comes after all others.
    return np.asarray(stats.rankdata(-np.nan_to_num(rates, nan=-1.0), method="min", axis=-1))


def rank_systems(
    passed: ArrayLike, runs: ArrayLike, confidence: float = CONFIDENCE, drawn: NDArray[np.float64] | None = None
) -> list[Rank]:
    """Return the rank of each system by its share of passed runs, with the interval of its rank over draws of tasks.

    Both have shape (tasks, systems); `drawn` are their `bootstrap_ratios`, where these are known already. With fewer
    than `FEWEST_TASKS` tasks nothing is claimed: every system that has a run may have any place.
    """
    passed, runs = np.asarray(passed, float), np.asarray(runs, float)
    totals = runs.sum(axis=0)
    rates = np.divide(passed.sum(axis=0), totals, out=np.full(totals.shape, np.nan), where=totals > 0)
    places = _place(rates).astype(int)
    if runs.shape[0] < FEWEST_TASKS:
        return [Rank(1, int(place), len(places)) for place in places]
    drawn_places = _place(bootstrap_ratios(passed, runs) if drawn is None else drawn)
    tail = (1 - confidence) / 2
    ends = np.quantile(drawn_places, [tail, 1 - tail], axis=0, method="inverted_cdf").astype(int)
    return [
        Rank(min(int(best), int(place)), int(place), max(int(worst), int(place)))
        for best, place, worst in zip(ends[0], places, ends[1], strict=True)
    ]


def rank_intervals(rates: Sequence[float], intervals: Sequence[Interval]) -> list[Rank]:
    """Return ranks by `rates` where no runs are known, only intervals: places differ only where intervals do not meet."""
    places = _place(np.asarray(rates, float)).astype(int)
    ranks = []
    for place, own in zip(places, intervals, strict=True):
        above = sum(other.low > own.high for other in intervals)
        below = sum(other.high < own.low for other in intervals)
        ranks.append(Rank(1 + above, int(place), len(intervals) - below))
    return ranks


def compare_paired(first: Sequence[float], second: Sequence[float], confidence: float = CONFIDENCE) -> PairedComparison:
    """Compare two systems by the shares of passed runs of the tasks that both ran, in the same order.

    The interval is Student's over the differences by task; the p-value is that of a sign-flip permutation test of
    their mean, exact for up to 13 tasks. Raises ValueError for fewer than two tasks or unequal lengths.
    """
    if len(first) != len(second) or len(first) < 2:  # noqa: PLR2004  a variance needs two
        raise ValueError(f"no pairs in {len(first)} and {len(second)} tasks")
    differences = np.subtract(first, second)
    mean = float(differences.mean())
    error = float(differences.std(ddof=1)) / math.sqrt(len(differences))
    half = float(stats.t.ppf((1 + confidence) / 2, len(differences) - 1)) * error
    test = stats.permutation_test(
        (np.asarray(first, float), np.asarray(second, float)),
        lambda left, right, axis: np.mean(left - right, axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=9_999,
        rng=np.random.default_rng(_SEED),
    )
    won, lost = int((differences > 0).sum()), int((differences < 0).sum())
    interval = Interval(max(-1.0, mean - half), min(1.0, mean + half))
    return PairedComparison(len(differences), mean, interval, float(test.pvalue), won, lost)


def adjust_p_values(values: Sequence[float]) -> list[float]:
    """Return p-values adjusted for testing several pairs at once, in the order given (Holm 1979)."""
    order = sorted(range(len(values)), key=lambda index: values[index])
    adjusted, largest = [0.0] * len(values), 0.0
    for position, index in enumerate(order):
        largest = max(largest, min(1.0, (len(values) - position) * values[index]))
        adjusted[index] = largest
    return adjusted
