"""Runs that are verified again by the verifier of today: one by a decision, or many at once."""

from __future__ import annotations

from dataclasses import dataclass

from django.core.exceptions import PermissionDenied, ValidationError
from django.db import transaction
from django.db.models import F

from portal.accounts.models import User
from portal.review.models import Batch, BatchRun
from portal.review.trail import record_event
from portal.runs.models import Run, Verdict
from portal.runs.querysets import RunQuerySet
from portal.runs.states import State

# Whoever submits goes first.
LOW_PRIORITY = -10
ATTEMPTS = 3
MOST_AT_ONCE = 5_000


def queue_again(runs: RunQuerySet) -> int:
    """Queue those of `runs` that have ended with a verdict, which stands meanwhile, and return how many there are."""
    ended = runs.filter(state=State.FINISHED, verdict__isnull=False)
    return ended.move(
        State.QUEUED, priority=LOW_PRIORITY, max_attempts=F("attempt") + ATTEMPTS, progress={}, cancel_requested_at=None
    )


@transaction.atomic
def start_batch(*, user: User, runs: RunQuerySet, expected: int, filters: str, reason: str) -> Batch:
    """Have `runs` verified again, if they are still as many as the administrator was shown.

    Raises PermissionDenied and ValidationError.
    """
    if not user.is_superuser:
        raise PermissionDenied("Only administrators have many runs verified again.")
    chosen = list(
        runs.filter(state=State.FINISHED, verdict__isnull=False)
        .order_by("pk")
        .select_related("verdict")
        .select_for_update(of=("self",))
    )
    if len(chosen) != expected:
        raise ValidationError(f"By now these are {len(chosen):,} runs, not {expected:,}. Look again, then confirm.")
    if not 1 <= expected <= MOST_AT_ONCE:
        raise ValidationError(f"Choose at least one run and at most {MOST_AT_ONCE:,} at once.")
    batch = Batch.objects.create(requested_by=user, reason=reason, filters=filters)
    BatchRun.objects.bulk_create(BatchRun(batch=batch, run=run, before=run.verdict) for run in chosen if run.verdict)
    queue_again(Run.objects.filter(batches=batch))
    record_event(
        actor=user, action="batch.start", subject=batch, after={"runs": expected, "filters": filters, "reason": reason}
    )
    return batch


@dataclass(frozen=True)
class Comparison:
    """One run before and after; `after` is None while it waits, and when every attempt met a fault of ours."""

    run: Run
    before: Verdict
    after: Verdict | None

    @property
    def waits(self) -> bool:
        """True while the run is still to be judged."""
        return self.after is None and not self.run.is_terminal

    @property
    def differs(self) -> bool:
        """True when the verifier of today decides otherwise."""
        return self.after is not None and (
            (self.before.outcome, self.before.failures) != (self.after.outcome, self.after.failures)
        )


def find_next(verdict: Verdict) -> Verdict | None:
    """Return the verifier's verdict that followed `verdict`, if there is one."""
    following = Verdict.objects.filter(run=verdict.run_id, number=verdict.number + 1, decided_by__isnull=True)
    return following.defer("body").first()


def compare_batch(batch: Batch) -> list[Comparison]:
    """Return what the runs of `batch` came to, in the order in which they were chosen."""
    items = list(
        batch.items.select_related("before", "run__task", "run__system", "run__environment").defer("before__body")
    )
    following = Verdict.objects.filter(run__batches=batch, decided_by__isnull=True).defer("body")
    found = {(verdict.run_id, verdict.number): verdict for verdict in following}
    return [Comparison(item.run, item.before, found.get((item.run_id, item.before.number + 1))) for item in items]
