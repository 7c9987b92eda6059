"""One system in one environment: by level, by family, how repeatable it is. Pure functions of tallies."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from portal.standings.boards import Measure, choose_measure
from portal.standings.counts import Tally
from portal.standings.levels import LevelCell, build_cell

# With more runs a task than this, only what occurs is listed.
MOST_SHOWN = 5


@dataclass(frozen=True)
class Repeatability:
    """The tasks with the same number of runs, by how many of those succeeded."""

    runs: int
    tasks: int
    histogram: list[tuple[int, int]]


@dataclass(frozen=True)
class TaskResult:
    """What one system achieved on one task: `speedup` is the geometric mean of its accepted runs, if it was timed."""

    task: str
    succeeded: int
    rated: int
    runs: int
    speedup: float | None
    target: float | None


@dataclass(frozen=True)
class Profile:
    """What one system achieved, cut in several ways."""

    measure: Measure
    levels: list[tuple[str, LevelCell]]
    families: list[tuple[str, LevelCell]]
    repeatability: list[Repeatability]


def _cut(tallies: Sequence[Tally], measure: Measure, read: Callable[[Tally], str]) -> list[tuple[str, LevelCell]]:
    keys = sorted({read(tally) for tally in tallies})
    return [(key, build_cell((tally for tally in tallies if read(tally) == key), measure)) for key in keys]


def build_repeatability(tallies: Sequence[Tally], measure: Measure) -> list[Repeatability]:
    """Return for each number of runs a task had, the histogram of how many of them succeeded."""
    counts = Counter((measure.count_rated(tally), measure.count_succeeded(tally)) for tally in tallies)
    found = []
    for runs in sorted({runs for runs, _ in counts if runs}):
        histogram = [(succeeded, counts[runs, succeeded]) for succeeded in range(runs + 1)]
        shown = [(succeeded, tasks) for succeeded, tasks in histogram if tasks or runs <= MOST_SHOWN]
        found.append(Repeatability(runs, sum(tasks for _, tasks in histogram), shown))
    return found


def build_profile(own: Sequence[Tally], everybody: Sequence[Tally]) -> Profile:
    """Return the profile of the system whose tallies are `own`, measured as the board of `everybody` is."""
    measure = choose_measure(everybody)
    return Profile(
        measure,
        _cut(own, measure, lambda tally: tally.level),
        _cut(own, measure, lambda tally: tally.family),
        build_repeatability(own, measure),
    )


def build_task_results(own: Sequence[Tally], measure: Measure, targets: Mapping[str, float | None]) -> list[TaskResult]:
    """Return the results of one system by task, beside the certified target where there is one."""
    return [
        TaskResult(
            tally.task,
            measure.count_succeeded(tally),
            measure.count_rated(tally),
            tally.runs,
            None if tally.mean_log_speedup is None else math.exp(tally.mean_log_speedup),
            targets.get(tally.task),
        )
        for tally in sorted(own, key=lambda tally: tally.task)
    ]
