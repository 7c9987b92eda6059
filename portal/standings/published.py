"""The published results: aggregates of the announcement, each marked stated, derived or unknown."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from portal.standings.statistics import Interval, Rank, adjust_speedup, rank_intervals, wilson_interval
from verifier.verdict import FailureMode

PATH = Path(__file__).parent / "data" / "published.json"


class Provenance(StrEnum):
    """Where a figure comes from."""

    STATED = "stated"
    DERIVED = "derived"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Figure:
    """A number as it is shown, and where it comes from."""

    text: str
    provenance: Provenance
    note: str = ""


UNKNOWN = Figure("not published", Provenance.UNKNOWN)


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PublishedFailure(Model):
    """How often one failure mode is reported for one system: a count, or a share of its failed runs."""

    mode: FailureMode
    runs: int | None = None
    percent_of_failed_runs: float | None = None
    note: str = ""


class PublishedSystem(Model):
    """One row of the published leaderboard."""

    system: str
    scaffold: str
    pass_rate_percent: float
    half_width_percent: float
    tasks_solved_once: int
    tasks_solved_twice: int
    geometric_mean_speedup: float
    coverage_percent: int
    wall_clock_minutes: float
    failures: list[PublishedFailure]

    def count_passed(self, runs: int) -> int:
        """Return the only whole number of `runs` that rounds to the stated rate."""
        return round(self.pass_rate_percent * runs / 100)

    def count_failures(self, mode: FailureMode, runs: int) -> Figure:
        """Return how many of `runs` failed by `mode`."""
        for failure in self.failures:
            if failure.mode is mode and failure.runs is not None:
                return Figure(str(failure.runs), Provenance.STATED, failure.note)
            if failure.mode is mode and failure.percent_of_failed_runs is not None:
                failed = runs - self.count_passed(runs)
                count = round(failure.percent_of_failed_runs * failed / 100)
                return Figure(
                    str(count), Provenance.DERIVED, f"{failure.percent_of_failed_runs} % of {failed} failed runs."
                )
        return UNKNOWN


class PublishedRuns(Model):
    """How many runs there were, and what became of them."""

    per_task: int
    per_system: int
    total: int
    non_passing: int
    rejected: int
    below_target: int
    rejected_at_or_above_target: int

    @property
    def passed(self) -> int:
        return self.total - self.non_passing

    @property
    def stopwatch_wins(self) -> int:
        """What a board that trusts the stopwatch would have shown as wins."""
        return self.passed + self.rejected_at_or_above_target


class PublishedLevel(Model):
    """One level of the suite."""

    level: str
    title: str
    tasks: int
    competency: str
    median_target: float
    tasks_at_or_above_2x: int
    delivery_percent_of_failed_runs: float | None = None


class PublishedSnapshot(Model):
    """Everything that the announcement says in figures and that a page shows."""

    schema_id: Literal["kernelquest.published/1"] = Field(alias="schema")
    source: str
    tasks: int
    runs: PublishedRuns
    levels: list[PublishedLevel]
    systems: list[PublishedSystem]


@dataclass(frozen=True)
class PublishedRow:
    """One system on the published board, ready to be shown."""

    system: str
    scaffold: str
    pass_rate_percent: float
    low_percent: float
    high_percent: float
    rank: Figure
    passed: Figure
    pass_rate: Figure
    interval: Figure
    tasks_solved_once: Figure
    tasks_solved_twice: Figure
    tasks_solved_always: Figure
    geometric_mean_speedup: Figure
    coverage: Figure
    adjusted_speedup: Figure
    wall_clock: Figure


@dataclass(frozen=True)
class FailureRow:
    """One failure mode with its figure for each system, in the order of the board."""

    mode: FailureMode
    cells: list[tuple[str, Figure]]


@dataclass(frozen=True)
class Segment:
    """A part of all published runs, as a share of the width of a bar."""

    name: str
    label: str
    runs: int
    start_percent: float
    width_percent: float
    provenance: Provenance


@cache
def load_snapshot(path: Path = PATH) -> PublishedSnapshot:
    """Return the published snapshot. Raises pydantic.ValidationError when the file is malformed."""
    return PublishedSnapshot.model_validate_json(path.read_bytes())


def _stated(text: str, note: str = "") -> Figure:
    return Figure(text, Provenance.STATED, note)


def write_rank(rank: Rank) -> str:
    """Return a rank such as 2 to 4, or one number where the place is settled."""
    return str(rank.place) if rank.best == rank.worst else f"{rank.best} to {rank.worst}"


def find_interval(system: PublishedSystem, runs: PublishedRuns) -> Interval:
    """Return the 95 % Wilson interval of the passed runs, as shares."""
    return wilson_interval(system.count_passed(runs.per_system), runs.per_system)


def build_row(system: PublishedSystem, runs: PublishedRuns, rank: Rank) -> PublishedRow:
    """Return the row of one system."""
    passed = system.count_passed(runs.per_system)
    low, high = (100 * bound for bound in find_interval(system, runs))
    adjusted = adjust_speedup(system.geometric_mean_speedup, system.coverage_percent / 100)
    # Runs passed = tasks with at least one + at least two + three passes, so the third follows.
    always = passed - system.tasks_solved_once - system.tasks_solved_twice
    return PublishedRow(
        system=system.system,
        scaffold=system.scaffold,
        pass_rate_percent=system.pass_rate_percent,
        low_percent=low,
        high_percent=high,
        rank=Figure(
            write_rank(rank), Provenance.DERIVED, "Places between which it is not settled: where intervals meet."
        ),
        passed=Figure(
            f"{passed} of {runs.per_system}", Provenance.DERIVED, "The only whole number that gives the stated rate."
        ),
        pass_rate=_stated(f"{system.pass_rate_percent:.1f} %"),
        interval=Figure(
            f"[{low:.1f}, {high:.1f}]",
            Provenance.DERIVED,
            f"95 % Wilson interval of {passed} of {runs.per_system}; stated as ±{system.half_width_percent}.",
        ),
        tasks_solved_once=_stated(str(system.tasks_solved_once)),
        tasks_solved_twice=_stated(str(system.tasks_solved_twice)),
        tasks_solved_always=Figure(str(always), Provenance.DERIVED, "Passed runs less tasks solved once and twice."),
        geometric_mean_speedup=_stated(f"{system.geometric_mean_speedup:.2f}x", "Which runs enter is not published."),
        coverage=_stated(f"{system.coverage_percent} %", "Read as tasks with at least one accepted run."),
        adjusted_speedup=Figure(
            f"{adjusted:.2f}x", Provenance.DERIVED, "The geometric mean with tasks that are not covered as 1.00x."
        ),
        wall_clock=_stated(f"{system.wall_clock_minutes:.1f} min"),
    )


def rank_published(snapshot: PublishedSnapshot) -> list[tuple[str, Rank]]:
    """Return each published system with its rank."""
    rates = [system.pass_rate_percent for system in snapshot.systems]
    ranks = rank_intervals(rates, [find_interval(system, snapshot.runs) for system in snapshot.systems])
    return [(system.system, rank) for system, rank in zip(snapshot.systems, ranks, strict=True)]


def build_rows(snapshot: PublishedSnapshot) -> list[PublishedRow]:
    """Return the rows of the published board, the highest pass rate first."""
    ranks = dict(rank_published(snapshot))
    rows = [build_row(system, snapshot.runs, ranks[system.system]) for system in snapshot.systems]
    return sorted(rows, key=lambda row: -row.pass_rate_percent)


def build_failure_rows(snapshot: PublishedSnapshot) -> list[FailureRow]:
    """Return the failure modes for which at least one system has a published count."""
    known = {failure.mode for system in snapshot.systems for failure in system.failures}
    systems = sorted(snapshot.systems, key=lambda system: -system.pass_rate_percent)
    return [
        FailureRow(mode, [(system.system, system.count_failures(mode, snapshot.runs.per_system)) for system in systems])
        for mode in FailureMode
        if mode in known
    ]


def build_segments(runs: PublishedRuns) -> list[Segment]:
    """Return what became of all published runs, as parts that fill a bar from left to right."""
    slower = runs.rejected - runs.rejected_at_or_above_target
    parts = [
        ("passed", "passed every gate and the target", runs.passed, Provenance.DERIVED),
        ("below-target", "accepted, below the target", runs.below_target, Provenance.STATED),
        ("rejected", "rejected, not shown to reach the target", slower, Provenance.DERIVED),
        (
            "false-win",
            "rejected, though the stopwatch showed the target",
            runs.rejected_at_or_above_target,
            Provenance.STATED,
        ),
    ]
    segments, start = [], 0.0
    for name, label, count, provenance in parts:
        width = 100 * count / runs.total
        segments.append(Segment(name, label, count, round(start, 3), round(width, 3), provenance))
        start += width
    return segments
