"""Two to four systems side by side, paired by task. Pure functions of tallies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from portal.standings.boards import Measure, choose_measure
from portal.standings.counts import Tally
from portal.standings.statistics import PairedComparison, adjust_p_values, compare_paired, geometric_mean

FEWEST, MOST = 2, 4
SIGNIFICANT = 0.05


@dataclass(frozen=True)
class Pair:
    """Two systems over the tasks that both ran. `speedup_ratio` is over the tasks for which both have a counted speed."""

    first: int
    second: int
    common: int
    paired: PairedComparison | None
    adjusted_p: float | None
    speedup_ratio: float | None
    speedup_tasks: int

    @property
    def is_settled(self) -> bool:
        """True when the test tells the two apart, all pairs of the page considered."""
        return self.adjusted_p is not None and self.adjusted_p < SIGNIFICANT


@dataclass(frozen=True)
class TaskRow:
    """One task with the tally of each system, None where a system has no counted run of it."""

    task: str
    cells: list[tuple[int, int, float | None] | None]
    differs: bool


@dataclass(frozen=True)
class Comparison:
    """All pairs of some systems, and their tasks."""

    measure: Measure
    pairs: list[Pair]
    tasks: list[TaskRow]


def _share(tally: Tally, measure: Measure) -> float:
    return measure.count_succeeded(tally) / measure.count_rated(tally)


def build_pair(
    first: int, second: int, by_task: dict[str, dict[int, Tally]], measure: Measure
) -> tuple[Pair, float | None]:
    """Return a pair whose p-value is not adjusted yet, and that p-value."""
    both = [(row[first], row[second]) for row in by_task.values() if first in row and second in row]
    rated = [(one, two) for one, two in both if measure.count_rated(one) and measure.count_rated(two)]
    paired = None
    if len(rated) >= 2:  # noqa: PLR2004  a variance needs two
        first_shares, second_shares = zip(
            *((_share(one, measure), _share(two, measure)) for one, two in rated), strict=True
        )
        paired = compare_paired(first_shares, second_shares)
    ratios = [
        math.exp(one.mean_log_speedup - two.mean_log_speedup)
        for one, two in both
        if one.mean_log_speedup is not None and two.mean_log_speedup is not None
    ]
    ratio = geometric_mean(ratios) if ratios else None
    return Pair(first, second, len(rated), paired, None, ratio, len(ratios)), paired.p_value if paired else None


def build_comparison(tallies: Sequence[Tally], systems: Sequence[int]) -> Comparison:
    """Return the comparison of `systems`, in that order. Tasks are those that at least one of them ran."""
    chosen = [tally for tally in tallies if tally.system in systems]
    measure = choose_measure(tallies)
    by_task: dict[str, dict[int, Tally]] = {}
    for tally in sorted(chosen, key=lambda tally: tally.task):
        by_task.setdefault(tally.task, {})[tally.system] = tally
    found = [build_pair(first, second, by_task, measure) for first, second in combinations(systems, 2)]
    adjusted = iter(adjust_p_values([value for _, value in found if value is not None]))
    pairs = [Pair(**{**vars(pair), "adjusted_p": None if value is None else next(adjusted)}) for pair, value in found]
    return Comparison(measure, pairs, [_build_task_row(task, row, systems, measure) for task, row in by_task.items()])


def _build_task_row(task: str, row: dict[int, Tally], systems: Sequence[int], measure: Measure) -> TaskRow:
    cells: list[tuple[int, int, float | None] | None] = []
    for system in systems:
        tally = row.get(system)
        if tally is None:
            cells.append(None)
            continue
        log = tally.mean_log_speedup
        cells.append(
            (measure.count_succeeded(tally), measure.count_rated(tally), None if log is None else math.exp(log))
        )
    shares = {cell[0] / cell[1] for cell in cells if cell and cell[1]}
    return TaskRow(task, cells, len(shares) > 1)
