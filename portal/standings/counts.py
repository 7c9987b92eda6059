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
from portal.runs.models import Run
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


def read_tallies(selection: Selection) -> list[Tally]:
    """Return the tallies of the runs that `selection` asks for."""
    tasks = {key: (level, family) for key, level, family in Task.objects.values_list("id", "level", "family")}
    groups = selection.narrow(Run.objects.counted()).order_by().values_list("environment", "system", "task")
    rejected = Q(verdict__outcome=Outcome.REJECTED)
    rows = groups.annotate(
        runs=Count("verdict"),
        targeted=Count("verdict__target"),
        passed=Count("verdict", filter=Q(verdict__outcome=Outcome.PASSED)),
        cleared=Count("verdict", filter=~rejected),
        below_target=Count("verdict", filter=Q(verdict__outcome=Outcome.BELOW_TARGET)),
        rejected=Count("verdict", filter=rejected),
        rejected_fast=Count("verdict", filter=rejected & Q(verdict__measured_speedup__gte=F("verdict__target"))),
        captured=Sum("verdict__capture", default=0.0),
        mean_log_speedup=Avg(Ln("verdict__speedup"), filter=Q(verdict__speedup__gt=0)),
        latest=Max("finished_at"),
    )
    return [Tally(environment, system, task, *tasks[task], *figures) for environment, system, task, *figures in rows]


def read_failures(selection: Selection) -> list[FailureCount]:
    """Return how the runs that `selection` asks for failed, by system and level."""
    failed = selection.narrow(Run.objects.counted()).exclude(verdict__primary_failure="")
    groups = failed.order_by().values_list("environment", "system", "task__level", "verdict__primary_failure")
    return [
        FailureCount(environment, system, level, FailureCode(code).mode, runs)
        for environment, system, level, code, runs in groups.annotate(Count("id"))
    ]


def read_stamp() -> str:
    """Return a token that changes with every verdict, and whenever who sees a run changes.

    Both refresh a standing in their own transaction. All standings enter: the one with the newest time may have been
    committed before an older one.
    """
    standings = list(Standing.objects.order_by("pk").values_list("pk", "refreshed_at"))
    return hashlib.sha256(repr(standings).encode()).hexdigest()


def remember(name: str, selection: Selection, stamp: str, compute: Callable[[], Result]) -> Result:
    """Return what `compute` gives, or what it gave earlier under the same name, selection and stamp."""
    key = f"standings-{hashlib.sha256(f'{name} {selection} {stamp}'.encode()).hexdigest()}"
    return cache.get_or_set(key, compute, KEPT_SECONDS)  # type: ignore[return-value]
