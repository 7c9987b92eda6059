"""The board of runs that this installation judged, one table an environment. Pure functions of tallies."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from portal.standings.charts import Rate
from portal.standings.counts import Tally
from portal.standings.statistics import (
    FEWEST_TASKS,
    Interval,
    MeanSpeedup,
    Rank,
    average_logarithms,
    bootstrap_interval,
    bootstrap_ratios,
    count_solved,
    rank_systems,
    wilson_interval,
)


class Measure(StrEnum):
    """What a board ranks by: passes where targets are certified, acceptance where there are none."""

    PASSED = "Pass rate"
    CLEARED = "Acceptance"

    def count_succeeded(self, tally: Tally) -> int:
        """Return the runs of `tally` that succeeded."""
        return tally.passed if self is Measure.PASSED else tally.cleared

    def count_rated(self, tally: Tally) -> int:
        """Return the runs of `tally` that could have succeeded: without a target no run can pass."""
        return tally.targeted if self is Measure.PASSED else tally.runs


@dataclass(frozen=True)
class Row:
    """What one system achieved, over the runs and tasks that the board counts.

    `wall_clock_seconds` is the mean over the `clocked` runs, None when there are none. `by_task` and `speedup_interval` are drawn from the tasks, and None where there are too few of them.
    """

    system: int
    rank: Rank
    runs: int
    tasks: int
    succeeded: int
    rated: int
    rate: Rate | None
    by_task: Interval | None
    solved_once: int
    solved_twice: int
    speedup: MeanSpeedup | None
    speedup_interval: Interval | None
    capture: float | None
    rejected: int
    rejected_fast: int
    clocked: int
    wall_clock_seconds: float | None


@dataclass(frozen=True)
class Board:
    """The rows of one environment, in order."""

    environment: str
    measure: Measure
    tasks: int
    rows: list[Row]

    @property
    def runs(self) -> int:
        return sum(row.runs for row in self.rows)

    @property
    def claims_order(self) -> bool:
        """True when there are enough tasks to say anything about the order of systems."""
        return self.tasks >= FEWEST_TASKS

    @property
    def rejected_fast(self) -> int:
        return sum(row.rejected_fast for row in self.rows)


def build_rate(succeeded: int, runs: int, label: str = "") -> Rate | None:
    """Return a share with its 95 % Wilson interval, in percent, or None when there are no runs."""
    if not runs:
        return None
    low, high = wilson_interval(succeeded, runs)
    return Rate(label, 100 * succeeded / runs, 100 * low, 100 * high)


def choose_measure(tallies: Iterable[Tally]) -> Measure:
    """Return what the runs can be ranked by."""
    return Measure.PASSED if any(tally.targeted for tally in tallies) else Measure.CLEARED


def group_by_system(tallies: Iterable[Tally]) -> dict[int, list[Tally]]:
    """Return the tallies of each system."""
    groups: dict[int, list[Tally]] = {}
    for tally in tallies:
        groups.setdefault(tally.system, []).append(tally)
    return groups


def build_matrix(
    tallies: Sequence[Tally], systems: Sequence[int], tasks: Sequence[str], read: Callable[[Tally], float | None]
) -> NDArray[np.float64]:
    """Return what `read` gives, by task and system; what is missing is 0."""
    columns, rows = ({key: index for index, key in enumerate(keys)} for keys in (systems, tasks))
    matrix = np.zeros((len(tasks), len(systems)))
    for tally in tallies:
        matrix[rows[tally.task], columns[tally.system]] = read(tally) or 0.0
    return matrix


def _build_row(own: list[Tally], measure: Measure, rank: Rank, by_task: Interval | None, speed: Interval | None) -> Row:
    succeeded, rated = sum(map(measure.count_succeeded, own)), sum(map(measure.count_rated, own))
    targeted, clocked = sum(tally.targeted for tally in own), sum(tally.clocked for tally in own)
    passes = [measure.count_succeeded(tally) for tally in own]
    logarithms = [tally.mean_log_speedup for tally in own if tally.mean_log_speedup is not None]
    return Row(
        system=own[0].system,
        rank=rank,
        runs=sum(tally.runs for tally in own),
        tasks=len(own),
        succeeded=succeeded,
        rated=rated,
        rate=build_rate(succeeded, rated),
        by_task=by_task,
        solved_once=count_solved(passes, 1),
        solved_twice=count_solved(passes, 2),
        speedup=average_logarithms(logarithms, len(own)),
        speedup_interval=speed,
        capture=sum(tally.captured for tally in own) / targeted if targeted else None,
        rejected=sum(tally.rejected for tally in own),
        rejected_fast=sum(tally.rejected_fast for tally in own),
        clocked=clocked,
        wall_clock_seconds=sum(tally.wall_clock_seconds for tally in own) / clocked if clocked else None,
    )


def build_board(environment: str, tallies: Sequence[Tally]) -> Board:
    """Return the board of one environment. Raises ValueError when nothing was tallied."""
    if not tallies:
        raise ValueError("a board needs a run")
    measure = choose_measure(tallies)
    systems, tasks = sorted({tally.system for tally in tallies}), sorted({tally.task for tally in tallies})
    succeeded, runs, logs, covered = (
        build_matrix(tallies, systems, tasks, read)
        for read in (
            measure.count_succeeded,
            measure.count_rated,
            lambda tally: tally.mean_log_speedup,
            lambda tally: tally.mean_log_speedup is not None,
        )
    )
    rates, speeds = bootstrap_ratios(succeeded, runs), np.exp(bootstrap_ratios(logs, covered))
    ranks = rank_systems(succeeded, runs, drawn=rates)
    own = group_by_system(tallies)
    few = len(tasks) < FEWEST_TASKS
    rows = [
        _build_row(
            own[system],
            measure,
            ranks[index],
            None if few else bootstrap_interval(rates[:, index]),
            None if few else bootstrap_interval(speeds[:, index]),
        )
        for index, system in enumerate(systems)
    ]
    return Board(environment, measure, len(tasks), rows)


def build_boards(tallies: Iterable[Tally]) -> list[Board]:
    """Return one board for each environment with judged runs."""
    ordered = sorted(tallies, key=lambda tally: tally.environment)
    return [
        build_board(environment, list(group))
        for environment, group in groupby(ordered, lambda tally: tally.environment)
    ]


_KEYS: dict[str, Callable[[Row], float | None]] = {
    "runs": lambda row: row.runs,
    "tasks": lambda row: row.tasks,
    "once": lambda row: row.solved_once,
    "twice": lambda row: row.solved_twice,
    "speedup": lambda row: row.speedup.mean if row.speedup else None,
    "capture": lambda row: row.capture,
    "fast": lambda row: row.rejected_fast,
    "clock": lambda row: row.wall_clock_seconds,
}


def sort_rows(rows: Iterable[Row], sort: str, names: dict[int, str]) -> list[Row]:
    """Return `rows` with the highest figure first, or by name; by rank when `sort` is empty. What is unknown is last.

    Figures are compared before they are rounded. Equal ones stand in the order of their ranks, then of their names.
    """
    ranked = sorted(rows, key=lambda row: (row.rank.place, names[row.system].casefold(), row.system))
    if sort == "system":
        return sorted(ranked, key=lambda row: names[row.system].casefold())
    if sort not in _KEYS:
        return ranked
    read = _KEYS[sort]
    return sorted(ranked, key=lambda row: math.inf if (value := read(row)) is None else -value)
