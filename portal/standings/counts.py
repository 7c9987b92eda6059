"""What the public runs of this installation add up to: read from the verdicts, and kept until the next verdict."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from django.core.cache import cache
from django.db.models import Avg, Count, F, Max, Q, Sum
from django.db.models.functions import Ln

from portal.catalog.models import Task
from portal.runs.models import Run, Verdict
from portal.standings.models import Standing
from portal.standings.selection import Selection
from verifier.verdict import FailureCode, FailureMode, Outcome

# So long a change of a task's level or family may go unseen.
KEPT_SECONDS = 300
Result = TypeVar("Result")


@dataclass(frozen=True)
class Tally:
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
    mean_log_speedup: float | None
    latest: datetime


@dataclass(frozen=True)
class FailureCount:
    """How many counted runs of one system at one level have one primary failure code."""

    environment: str
    system: int
    level: str
    mode: FailureMode
    runs: int


def is_fast() -> Q:
    """Return the condition of a verdict that rejects a run which the stopwatch had at or above its target."""
    return Q(outcome=Outcome.REJECTED, measured_speedup__gte=F("target"))


def read_tallies(selection: Selection) -> list[Tally]:
    """Return the tallies of the runs that `selection` asks for."""
    tasks = {key: (level, family) for key, level, family in Task.objects.values_list("id", "level", "family")}
    verdicts = Verdict.objects.filter(run__in=selection.narrow(Run.objects.counted()))
    groups = verdicts.order_by().values_list("run__environment", "run__system", "run__task")
    rows = groups.annotate(
        runs=Count("id"),
        targeted=Count("target"),
        passed=Count("id", filter=Q(outcome=Outcome.PASSED)),
        cleared=Count("id", filter=~Q(outcome=Outcome.REJECTED)),
        below_target=Count("id", filter=Q(outcome=Outcome.BELOW_TARGET)),
        rejected=Count("id", filter=Q(outcome=Outcome.REJECTED)),
        rejected_fast=Count("id", filter=is_fast()),
        captured=Sum("capture", default=0.0),
        mean_log_speedup=Avg(Ln("speedup"), filter=Q(speedup__gt=0)),
        latest=Max("run__finished_at"),
    )
    return [Tally(environment, system, task, *tasks[task], *figures) for environment, system, task, *figures in rows]


def read_failures(selection: Selection) -> list[FailureCount]:
    """Return how the runs that `selection` asks for failed, by system and level."""
    verdicts = Verdict.objects.filter(run__in=selection.narrow(Run.objects.counted())).exclude(primary_failure="")
    groups = verdicts.order_by().values_list("run__environment", "run__system", "run__task__level", "primary_failure")
    return [
        FailureCount(environment, system, level, FailureCode(code).mode, runs)
        for environment, system, level, code, runs in groups.annotate(Count("id"))
    ]


def remember(name: str, selection: Selection, compute: Callable[[], Result]) -> Result:
    """Return what `compute` gives, or what it gave earlier when no standing has changed since.

    Every verdict, and every change of who sees a run, refreshes a standing in its own transaction. All standings are
    looked at: the one with the newest time may have been committed before an older one.
    """
    standings = list(Standing.objects.order_by("pk").values_list("pk", "refreshed_at"))
    key = f"standings-{hashlib.sha256(f'{name} {selection} {standings}'.encode()).hexdigest()}"
    return cache.get_or_set(key, compute, KEPT_SECONDS)  # type: ignore[return-value]
