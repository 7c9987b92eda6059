"""How many runs a team may submit in 24 hours, and have open at once.

What the installation itself failed at, and what was cancelled before a worker took it, costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.core.exceptions import ValidationError
from django.utils import timezone

from portal.accounts.models import Team
from portal.runs.models import Run

WINDOW = timedelta(hours=24)


@dataclass(frozen=True)
class Quota:
    """What is left to a team at one moment."""

    daily: int
    used: int
    limit_open: int
    open: int
    next_slot: datetime | None

    @property
    def left(self) -> int:
        """How many runs may be submitted now."""
        return max(0, min(self.daily - self.used, self.limit_open - self.open))

    @property
    def waits_for_verdicts(self) -> bool:
        """True when too many runs are open, so that no hour can be named at which more may be submitted."""
        return self.open >= self.limit_open


class QuotaExceeded(ValidationError):
    """Too many runs; says when more may be submitted, where that is known."""

    def __init__(self, message: str, quota: Quota) -> None:
        super().__init__(message, code="quota")
        self.quota = quota


def read_quota(team: Team, now: datetime | None = None) -> Quota:
    """Return what is left to `team`. To decide by it, hold the lock of the team's row."""
    now = now or timezone.now()
    daily = settings.RUNS_A_DAY if team.daily_runs is None else team.daily_runs
    limit_open = settings.OPEN_RUNS if team.open_runs is None else team.open_runs
    recent = Run.objects.filter(team=team).costing_since(now - WINDOW).order_by("queued_at")
    used = recent.count()
    # When as many have left the window as make room for one more.
    first = recent[used - daily] if used >= daily > 0 else None
    next_slot = first.queued_at + WINDOW if first else None
    return Quota(daily, used, limit_open, Run.objects.filter(team=team).awaiting_verdict().count(), next_slot)


def claim_quota(team: Team, runs: int = 1) -> Quota:
    """Lock `team` until the transaction ends, and return what is left to it before these runs. Raises QuotaExceeded."""
    quota = read_quota(Team.objects.select_for_update().get(pk=team.pk))
    if runs > quota.left:
        raise QuotaExceeded(explain(quota, runs), quota)
    return quota


def explain(quota: Quota, runs: int) -> str:
    """Return why so many runs are too many now, and what to do."""
    if quota.open + runs > quota.limit_open:
        return (
            f"Your team has {quota.open} runs that wait for their verdict, and at most {quota.limit_open} may. "
            "Wait for some, or cancel some."
        )
    left = max(0, quota.daily - quota.used)
    when = f" The next slot opens at {quota.next_slot:%Y-%m-%d %H:%M} UTC." if quota.next_slot else ""
    return f"Your team may submit {quota.daily} runs in 24 hours; {left} are left.{when}"
