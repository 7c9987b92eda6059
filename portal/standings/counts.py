"""What the public runs of this installation add up to: read from rows by task, and kept until the next verdict."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, datetime
from functools import cache as cache_once
from itertools import starmap
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from django.conf import settings
from django.core.cache import cache
from django.db.models import Avg, Count, F, Max, Q, QuerySet, Sum
from django.db.models.functions import Ln

from portal.runs.models import Run, Verdict
from portal.runs.querysets import VerdictQuerySet
from portal.standings.models import Standing, TaskStanding
from portal.standings.selection import Selection
from verifier.verdict import FailureCode, FailureMode, Outcome

# So long a change of a task's level or family may go unseen.
KEPT_SECONDS = 300
Result = TypeVar("Result")
_KEY = ("environment", "system", "task", "task__level", "task__family")
# What is counted of each task, in the order of a tally; columns of `TaskStanding` have the same names.
FIGURES = (
    "runs", "targeted", "passed", "cleared", "below_target", "rejected", "rejected_fast", "captured",
    "speedups", "mean_log_speedup", "clocked", "wall_clock_seconds",
)  # fmt: skip
# What a row keeps of its task beside them. Times are slow to read, and few pages show them.
KEPT_FIGURES = (*FIGURES, "latest")


class Tally(NamedTuple):
    """The counted runs of one system for one task in one environment."""

    environment: str
    system: int
    task: str
    level: str
    family: str
    runs: int
    targeted: int
    passed: int
    cleared: int
    below_target: int
    rejected: int
    rejected_fast: int
    captured: float
    speedups: int
    mean_log_speedup: float | None
    clocked: int
    wall_clock_seconds: int


@dataclass(frozen=True)
class FailureCount:
    """How many counted runs of one system at one level failed in one mode."""

    environment: str
    system: int
    level: str
    mode: FailureMode
    runs: int


class StandingLine(NamedTuple):
    """What one system achieved in one environment, and when that was last counted."""

    pk: int
    refreshed_at: datetime
    environment: str
    system: int
    runs: int
    tasks: int
    passed: int
    accepted: int
    below_target: int
    rejected: int
    rejected_fast: int


def count_figures(verdicts: VerdictQuerySet, *groups: str) -> QuerySet[Verdict, Any]:
    """Return tuples of what `groups` name of the runs, and the `KEPT_FIGURES` of their verdicts."""
    rejected = Q(outcome=Outcome.REJECTED)
    figures = {
        "runs": Count("pk"),
        "targeted": Count("target"),
        "passed": Count("pk", filter=Q(outcome=Outcome.PASSED)),
        "cleared": Count("pk", filter=~rejected),
        "below_target": Count("pk", filter=Q(outcome=Outcome.BELOW_TARGET)),
        "rejected": Count("pk", filter=rejected),
        "rejected_fast": Count("pk", filter=rejected & Q(measured_speedup__gte=F("target"))),
        "captured": Sum("capture", default=0.0),
        "speedups": Count("pk", filter=Q(speedup__gt=0)),
        "mean_log_speedup": Avg(Ln("speedup"), filter=Q(speedup__gt=0)),
        "clocked": Count("run__wall_clock_seconds"),
        "wall_clock_seconds": Sum("run__wall_clock_seconds", default=0),
        "latest": Max("created_at"),
    }
    paths = [f"run__{group}" for group in groups]
    # The names of some figures are those of columns, so that they are counted under others.
    counted = {f"counted_{name}": figure for name, figure in figures.items()}
    return verdicts.order_by().values(*paths).annotate(**counted).values_list(*paths, *counted)


def count_failures(verdicts: VerdictQuerySet, *groups: str) -> QuerySet[Verdict, Any]:
    """Return tuples of what `groups` name of the runs, a primary failure code, and how many verdicts there have it."""
    failed = verdicts.exclude(primary_failure="").order_by()
    return failed.values_list(*(f"run__{group}" for group in groups), "primary_failure").annotate(Count("pk"))


def _select_verdicts(selection: Selection) -> VerdictQuerySet:
    """Return the verdicts that stood on the day that `selection` asks for."""
    runs = selection.change(as_of=None).narrow(Run.objects.counted())
    return Verdict.objects.standing_on(selection.as_of or date.max).filter(run__in=runs)


def add_tallies(first: Tally, second: Tally) -> Tally:
    """Return what the runs of two tallies of one task add up to."""
    speedups = first.speedups + second.speedups
    logarithms = [one.speedups * one.mean_log_speedup for one in (first, second) if one.mean_log_speedup is not None]
    sums = {
        name: getattr(first, name) + getattr(second, name)
        for name in FIGURES
        if name not in ("mean_log_speedup", "speedups")
    }
    return first._replace(**sums, speedups=speedups, mean_log_speedup=sum(logarithms) / speedups if speedups else None)


def merge_tallies(tallies: Iterable[Tally]) -> list[Tally]:
    """Return one tally a task, where the runs of a task as it was at several times were counted apart."""
    merged: dict[tuple[str, int, str], Tally] = {}
    for tally in tallies:
        key = (tally.environment, tally.system, tally.task)
        known = merged.get(key)
        merged[key] = add_tallies(known, tally) if known else tally
    return list(merged.values())


def read_tallies(selection: Selection) -> list[Tally]:
    """Return the tallies of the runs that `selection` asks for. As of an earlier day there are no rows, only runs."""
    if selection.as_of:
        return [Tally(*figures) for *figures, _ in count_figures(_select_verdicts(selection), *_KEY)]
    rows = TaskStanding.objects.filter(**selection.conditions)
    return merge_tallies(starmap(Tally, rows.values_list(*_KEY, *FIGURES)))


def read_failures(selection: Selection) -> list[FailureCount]:
    """Return how the runs that `selection` asks for failed, by system and level."""
    if not selection.as_of:
        return read_figures(selection)[1]
    return _add_failures(count_failures(_select_verdicts(selection), "environment", "system", "task__level"))


def _add_failures(rows: Iterable[tuple[str, int, str, str, int]]) -> list[FailureCount]:
    counts: Counter[tuple[str, int, str, FailureMode]] = Counter()
    for environment, system, level, code, runs in rows:
        counts[environment, system, level, FailureCode(code).mode] += runs
    return [FailureCount(*key, runs) for key, runs in counts.items()]


def read_fast_failures(selection: Selection) -> list[tuple[FailureMode, int]]:
    """Return why runs were rejected although the stopwatch had them at or above target, the most frequent first.

    This counts runs: rows by task do not tell which of the failed runs were fast.
    """
    fast = _select_verdicts(selection).filter(outcome=Outcome.REJECTED, measured_speedup__gte=F("target"))
    modes: Counter[FailureMode] = Counter()
    for code, runs in count_failures(fast):
        modes[FailureCode(code).mode] += runs
    return modes.most_common()


def read_latest(selection: Selection) -> dict[tuple[str, int], datetime]:
    """Return by environment and system when the last verdict came in of the runs that `selection` asks for."""
    if selection.as_of:
        verdicts = _select_verdicts(selection).order_by().values_list("run__environment", "run__system")
        found = list(verdicts.annotate(Max("created_at")))
    else:
        rows = TaskStanding.objects.filter(**selection.conditions).values_list("environment", "system")
        found = list(rows.annotate(Max("latest")))
    return {(environment, system): latest for environment, system, latest in found}


def read_rows(**conditions: Any) -> list[tuple[Tally, dict[str, int]]]:
    """Return the rows that fulfil `conditions`, each with its runs by failure code; a task may have several."""
    rows = TaskStanding.objects.filter(**conditions).values_list(*_KEY, *FIGURES, "failures")
    return [(Tally(*figures), failures) for *figures, failures in rows]


def read_figures(selection: Selection) -> tuple[list[Tally], list[FailureCount]]:
    """Return tallies and failures of the runs that `selection` asks for: with one query, where there are rows."""
    if selection.as_of:
        return read_tallies(selection), read_failures(selection)
    pairs = read_rows(**selection.conditions)
    failed = (
        (tally.environment, tally.system, tally.level, code, runs)
        for tally, failures in pairs
        for code, runs in failures.items()
    )
    return merge_tallies(tally for tally, _ in pairs), _add_failures(failed)


def read_standings() -> list[StandingLine]:
    """Return every standing, always in the same order."""
    rows = Standing.objects.order_by("pk").values_list(*StandingLine._fields)
    return list(starmap(StandingLine, rows))


def stamp_standings(standings: list[StandingLine]) -> str:
    """Return a token that changes with every verdict, and whenever who sees a run changes.

    Both refresh a standing in their own transaction. All standings enter: the one with the newest time may have been
    committed before an older one.
    """
    times = [(standing.pk, standing.refreshed_at) for standing in standings]
    return hashlib.sha256(repr(times).encode()).hexdigest()


@cache_once
def read_code() -> str:
    """Return a token of this package's code and of all templates: what others have kept may have another shape."""
    files = [*Path(__file__).parent.rglob("*.py"), *Path(settings.BASE_DIR, "templates").rglob("*.html")]
    parts = [path.read_bytes() for path in sorted(files)]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def remember(name: str, selection: Selection, stamp: str, compute: Callable[[], Result]) -> Result:
    """Return what `compute` gives, or what it gave earlier under the same name, selection and stamp."""
    key = f"standings-{hashlib.sha256(f'{name} {selection} {stamp} {read_code()}'.encode()).hexdigest()}"
    return cache.get_or_set(key, compute, KEPT_SECONDS)  # type: ignore[return-value]
