"""What waits for a reviewer: verdicts that reject, alike ones together, and appeals."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.core.paginator import Page, Paginator
from django.db.models import Case as Choice
from django.db.models import (
    Count,
    Exists,
    F,
    Max,
    Min,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    When,
    Window,
)
from django.db.models.functions import Coalesce, RowNumber

from portal.accounts.models import User
from portal.review.models import CLOSING, Appeal, Decision
from portal.runs.models import Run
from portal.runs.states import State
from verifier.verdict import Outcome

GROUPS_PER_PAGE = 25
# Runs with what `list_reviewable` knows of them, which the types of Django cannot say.
Annotated = Any
# So many runs of a group are named; the others are counted.
NAMED = 6


@dataclass(frozen=True)
class Group:
    """Runs of one task whose sources look alike; the one to begin with comes first."""

    runs: list[Run]
    size: int
    fast: bool
    appealed_at: datetime | None
    oldest: datetime

    @property
    def first(self) -> Run:
        """The run to begin with."""
        return self.runs[0]

    @property
    def unnamed(self) -> int:
        """How many runs are not in `runs`."""
        return self.size - len(self.runs)


def list_reviewable(user: User) -> Annotated:
    """Return the runs that wait for a decision of `user`: rejected by the verifier, or appealed.

    A verdict that was upheld or overturned waits no longer, and nobody is offered a run of their own team.
    """
    closed = Decision.objects.filter(verdict=OuterRef("verdict"), kind__in=CLOSING)
    appeals = Appeal.objects.open().filter(run=OuterRef("pk")).order_by("created_at")
    undecided = Q(verdict__outcome=Outcome.REJECTED, verdict__decided_by__isnull=True, state=State.FINISHED) & ~Exists(
        closed
    )
    fast = When(verdict__outcome=Outcome.REJECTED, verdict__measured_speedup__gte=F("verdict__target"), then=1)
    runs = Run.objects.filter(verdict__isnull=False).alias(has_appeal=Exists(appeals))
    runs = runs.filter(Q(has_appeal=True) | undecided).annotate(
        appealed_at=Subquery(appeals.values("created_at")[:1]),
        fast=Choice(fast, default=0),
        kin=Coalesce("source__fingerprint__group", "source_id"),
    )
    return runs.exclude(submitted_by=user).exclude(team__in=user.memberships.values("team"))


def _order_groups(runs: Annotated) -> QuerySet[Run, dict[str, Any]]:
    groups = (
        runs.order_by()
        .values("kin", "task")
        .annotate(
            size=Count("pk"),
            any_fast=Max("fast"),
            first_appeal=Min("appealed_at"),
            oldest=Min("verdict__created_at"),
        )
    )
    return groups.order_by(F("first_appeal").asc(nulls_last=True), "-any_fast", "oldest", "kin", "task")


def _name_runs(runs: Annotated, found: list[dict[str, Any]]) -> dict[tuple[str, str], list[Run]]:
    """Return the first runs of each group."""
    wanted = Q(pk__in=[])
    for group in found:
        wanted |= Q(kin=group["kin"], task=group["task"])
    urgent = (F("appealed_at").asc(nulls_last=True), F("fast").desc(), F("verdict__created_at").asc(), F("pk").asc())
    place = Window(RowNumber(), partition_by=[F("kin"), F("task")], order_by=urgent)
    named = runs.filter(wanted).annotate(place=place).filter(place__lte=NAMED).order_by("place")
    groups: dict[tuple[str, str], list[Run]] = {}
    for run in named.select_related("case__assignee").for_lists():
        groups.setdefault((run.kin, run.task_id), []).append(run)
    return groups


def read_page(runs: Annotated, number: str | None) -> tuple[Page[Any], list[Group]]:
    """Return one page of the queue: appeals by age, then what was fast, then the rest, the oldest first."""
    page = Paginator(_order_groups(runs), GROUPS_PER_PAGE).get_page(number)
    found = list(page.object_list)
    named = _name_runs(runs, found)
    groups = [
        Group(
            named[group["kin"], group["task"]],
            group["size"],
            bool(group["any_fast"]),
            group["first_appeal"],
            group["oldest"],
        )
        for group in found
    ]
    return page, groups
