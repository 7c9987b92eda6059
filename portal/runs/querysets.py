from __future__ import annotations

from datetime import UTC, date, datetime, time
from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.contrib.auth.models import AnonymousUser
from django.db import models
from django.db.models import Exists, F, OuterRef, Q
from django.db.models.functions import Now

from portal.catalog.models import ReleasedTask
from portal.runs.states import HELD, OPEN, State, list_sources
from verifier.verdict import FailureCode, FailureMode, Outcome

if TYPE_CHECKING:
    from portal.accounts.models import User
    from portal.catalog.models import Environment
    from portal.runs.models import Run, Verdict  # noqa: F401  a base class names it
    from portal.systems.models import System


def end_of(day: date) -> datetime:
    """Return the last moment of `day` in UTC."""
    return datetime.combine(day, time.max, tzinfo=UTC)


class VerdictQuerySet(models.QuerySet["Verdict"]):
    def current(self) -> VerdictQuerySet:
        """The verdicts that stand: of each run the last revision."""
        return self.filter(run__verdict=F("pk"))

    def standing_on(self, day: date) -> VerdictQuerySet:
        """The verdicts that stood at the end of `day`, in UTC."""
        later = self.model.objects.filter(
            run=OuterRef("run"), number__gt=OuterRef("number"), created_at__lte=end_of(day)
        )
        return self.filter(~Exists(later), created_at__lte=end_of(day))


class RunQuerySet(models.QuerySet["Run"]):
    def visible_to(self, user: User | AnonymousUser) -> RunQuerySet:
        """The runs that `user` may see: public ones, own ones, those shown to a team of the user; all for staff."""
        public = Q(visibility="public")
        if not user.is_authenticated:
            return self.filter(public)
        if user.is_staff:
            return self
        teams = user.memberships.values("team")
        return self.filter(public | Q(submitted_by=user) | Q(visibility="team", team__in=teams))

    def counted(self) -> RunQuerySet:
        """The runs that standings count: public, with a verdict."""
        return self.filter(visibility="public", verdict__isnull=False)

    def judged_by(self, day: date) -> RunQuerySet:
        """The runs that had a verdict at the end of `day`, in UTC, each joined to that verdict as `verdicts`."""
        verdicts = VerdictQuerySet(apps.get_model("runs", "Verdict"))
        return self.filter(verdicts__in=verdicts.standing_on(day))

    def of_release(self, release: str) -> RunQuerySet:
        """The runs that were submitted for a task as it stands in the release with this slug."""
        return self.filter(task_digest__in=ReleasedTask.objects.filter(release=release).values("digest"))

    def failed(self) -> RunQuerySet:
        """The runs whose verdict names a failure."""
        return self.filter(verdict__primary_failure__gt="")

    def failed_by(self, mode: FailureMode) -> RunQuerySet:
        """The runs whose primary failure belongs to `mode`."""
        return self.filter(verdict__primary_failure__in=[code for code in FailureCode if code.mode is mode])

    def rejected_fast(self) -> RunQuerySet:
        """The runs that were rejected although the stopwatch had them at or above their target."""
        return self.filter(
            verdict__outcome=Outcome.REJECTED, verdict__measured_speedup__gte=models.F("verdict__target")
        )

    def open(self) -> RunQuerySet:
        """The runs that wait for their verdict, or for a further one."""
        return self.filter(state__in=OPEN)

    def awaiting_verdict(self) -> RunQuerySet:
        """The open runs that have no verdict yet; those that are verified again are not the team's doing."""
        return self.open().filter(verdict__isnull=True)

    def costing_since(self, moment: datetime) -> RunQuerySet:
        """The runs submitted after `moment` that count against a quota.

        Those that crashed are the installation's fault; those cancelled before a worker took them cost it nothing.
        """
        free = Q(state=State.CRASHED) | Q(state=State.CANCELLED, attempt=0)
        return self.filter(queued_at__gt=moment).exclude(free)

    def submitted_for(self, *, system: System, environment: Environment) -> RunQuerySet:
        """The runs of a system in an environment that were judged or will be; what was cancelled or crashed is neither."""
        return self.filter(system=system, environment=environment).exclude(state__in=[State.CANCELLED, State.CRASHED])

    def due(self) -> RunQuerySet:
        """The runs that wait for a worker, the next one first."""
        return self.filter(state=State.QUEUED).order_by("-priority", "queued_at", "id")

    def ahead_of(self, run: Run) -> RunQuerySet:
        """The runs that a worker will take before `run`."""
        earlier = Q(queued_at__lt=run.queued_at) | Q(queued_at=run.queued_at, id__lt=run.id)
        return self.due().filter(
            Q(priority__gt=run.priority) | (Q(priority=run.priority) & earlier), environment=run.environment_id
        )

    def held(self) -> RunQuerySet:
        """The runs that a worker holds by a lease that has not ended."""
        return self.filter(state__in=HELD, lease_expires_at__gt=Now())

    def expired(self) -> RunQuerySet:
        """The runs whose lease ended without a word from the worker."""
        return self.filter(state__in=HELD, lease_expires_at__lte=Now())

    def for_lists(self) -> RunQuerySet:
        """Join what a list shows and leave out the long texts."""
        return self.select_related("task", "environment", "system", "team", "verdict").defer(
            "verdict__body", "verdict__reason", "task__instruction", "task__reference_source", "progress"
        )

    def move(self, state: State, **changes: Any) -> int:
        """Update the rows that may go to `state`, and return how many did.

        The one statement that changes a state: a row that has moved on meanwhile is left alone.
        """
        return self.filter(state__in=list_sources(state)).update(state=state, **changes)
