"""How the speedups of a task's runs are distributed, by outcome. Pure functions of plain data."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from verifier.verdict import Outcome

# Each ten times is cut here: fine enough to see a target in, coarse enough to read as a table.
_CUTS = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)
# What no stopwatch should say is put into the outermost bins.
_DECADES = (-2, 4)
EDGES = tuple(cut * 10.0**decade for decade in range(*_DECADES) for cut in _CUTS)
# What counts stands before what does not.
SHOWN = (Outcome.PASSED, Outcome.ACCEPTED, Outcome.BELOW_TARGET, Outcome.REJECTED)


@dataclass(frozen=True)
class Bin:
    """The runs between two speedups, the lower one included, by outcome in the order of the distribution."""

    low: float
    high: float
    runs: list[int]


@dataclass(frozen=True)
class Distribution:
    """The runs of one task in one environment. `untimed` are those that have no speedup, by outcome."""

    outcomes: list[Outcome]
    bins: list[Bin]
    untimed: list[int]
    target: float | None
    floor: float | None

    @property
    def totals(self) -> list[int]:
        """The runs of each outcome."""
        return [sum(counts) for counts in zip(self.untimed, *(one.runs for one in self.bins), strict=True)]

    @property
    def runs(self) -> int:
        return sum(self.totals)

    @property
    def filled(self) -> list[Bin]:
        """The bins with a run."""
        return [one for one in self.bins if any(one.runs)]


def find_bin(speedup: float) -> int:
    """Return the number of the bin that `speedup` falls into."""
    return min(max(bisect_right(EDGES, speedup) - 1, 0), len(EDGES) - 2)


def build_distribution(
    results: Iterable[tuple[str, float | None]], target: float | None = None, floor: float | None = None
) -> Distribution:
    """Return the distribution of (outcome, speedup by the stopwatch or None). `floor` is the speedup of the floor."""
    counts: Counter[tuple[int | None, Outcome]] = Counter()
    for outcome, speedup in results:
        known = speedup is not None and math.isfinite(speedup) and speedup > 0
        counts[find_bin(speedup) if known and speedup else None, Outcome(outcome)] += 1
    outcomes = [outcome for outcome in SHOWN if any(found is outcome for _, found in counts)]
    numbers = [number for number, _ in counts if number is not None]
    edges = list(pairwise(EDGES))
    bins = [
        Bin(*edges[number], [counts[number, outcome] for outcome in outcomes])
        for number in (range(min(numbers), max(numbers) + 1) if numbers else ())
    ]
    return Distribution(outcomes, bins, [counts[None, outcome] for outcome in outcomes], target, floor)


def choose_ticks(bins: Sequence[Bin]) -> list[float]:
    """Return the speedups to name on an axis over `bins`: 1, 2 and 5 in every ten, or every edge of a few bins."""
    edges = [bins[0].low, *(one.high for one in bins)] if bins else []
    if len(edges) <= 6:  # noqa: PLR2004  so many labels have room on a phone
        return edges
    return [edge for edge in edges if f"{edge:.0e}"[0] in "125" and f"{edge:.1e}"[2] == "0"]
