"""A worker's hold on a run: claim, renew, finish.

A lease ends on the database's clock, never on a host's. Its token fences every write: a worker that was presumed
lost, and comes back, changes nothing.
"""

from __future__ import annotations

import uuid
from datetime import timedelta
from enum import StrEnum
from functools import partial
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.db.models.expressions import CombinedExpression
from django.db.models.functions import Coalesce, Now

from portal.notifications.services import notify_verdict
from portal.review.trail import record_event
from portal.runs import dispatch
from portal.runs.models import Attempt, Run, Verdict
from portal.runs.querysets import RunQuerySet
from portal.runs.revisions import keep_verdict, replace_nul, summarise_verdict
from portal.runs.states import HELD, State
from portal.standings.services import refresh_standing
from verifier.verdict import Outcome
from verifier.verdict import Verdict as VerdictBody

LOG_CAP = 16_384
_RELEASED: dict[str, Any] = {"lease_token": None, "lease_expires_at": None, "worker": "", "current_gate": ""}


class LeaseLost(Exception):
    """The run belongs to somebody else by now, or has ended. Stop, and write nothing."""


class VerdictMismatch(ValueError):
    """A verdict for another task, environment or solution than the run's."""


class LeaseStatus(StrEnum):
    HELD = "held"
    CANCELLED = "cancelled"
    LOST = "lost"


def _lease_end() -> CombinedExpression:
    return Now() + timedelta(seconds=settings.LEASE_SECONDS)


def _held_by(token: uuid.UUID) -> RunQuerySet:
    return Run.objects.filter(lease_token=token, state__in=HELD)


def _lock(token: uuid.UUID) -> Run:
    run = _held_by(token).select_for_update().first()
    if run is None:
        raise LeaseLost
    return run


@transaction.atomic
def claim_run(*, environment: str, worker: str) -> Run | None:
    """Lease the next due run to `worker`, or return None. The attempt counts from here, so that it counts if it kills."""
    due = Run.objects.filter(environment=environment).due()
    run = due.select_for_update(skip_locked=True).first()
    if run is None:
        return None
    moved = Run.objects.filter(pk=run.pk, attempt=run.attempt).move(
        State.LEASED,
        attempt=F("attempt") + 1,
        lease_token=uuid.uuid4(),
        lease_expires_at=_lease_end(),
        worker=worker,
        started_at=Coalesce("started_at", Now()),
        progress={},
    )
    if not moved:
        return None
    run.refresh_from_db()
    Attempt.objects.create(run=run, number=run.attempt, worker=worker, started_at=Now())
    return run


def begin_run(*, token: uuid.UUID) -> None:
    """Note that the verifier has started. Raises LeaseLost."""
    if not _held_by(token).move(State.RUNNING):
        raise LeaseLost


def record_progress(*, token: uuid.UUID, current_gate: str, progress: dict[str, Any]) -> None:
    """Note how far the verifier is. Raises LeaseLost."""
    if not _held_by(token).update(current_gate=current_gate, progress=progress):
        raise LeaseLost


def renew_lease(*, token: uuid.UUID) -> LeaseStatus:
    """Extend the lease, and return whether to go on."""
    if not _held_by(token).update(lease_expires_at=_lease_end()):
        return LeaseStatus.LOST
    cancelled = _held_by(token).filter(cancel_requested_at__isnull=False).exists()
    return LeaseStatus.CANCELLED if cancelled else LeaseStatus.HELD


def _end_attempt(run: Run, outcome: Attempt.Outcome, reason: str, log_tail: str) -> Attempt:
    # A worker's database role does not see the logs of others.
    attempt = run.attempts.defer("reason", "log_tail").get(number=run.attempt)
    attempt.outcome = outcome
    attempt.reason = replace_nul(reason)[:300]
    attempt.log_tail = replace_nul(log_tail)[-LOG_CAP:]
    attempt.ended_at = Now()
    attempt.save(update_fields=["outcome", "reason", "log_tail", "ended_at"])
    return attempt


def _give_back(run: Run, outcome: Attempt.Outcome, reason: str, log_tail: str = "") -> State:
    """End the attempt of a locked run: cancelled when that was asked, else queued while attempts are left.

    A run that was verified again keeps the verdict that it has.
    """
    if run.cancel_requested_at:
        state, outcome = State.CANCELLED, Attempt.Outcome.CANCELLED
    else:
        state = State.QUEUED if run.attempt < run.max_attempts else State.CRASHED
    if run.verdict_id and state is not State.QUEUED:
        state = State.FINISHED
    ended = {} if state is State.QUEUED else {"finished_at": Coalesce("finished_at", Now())}
    if not Run.objects.filter(lease_token=run.lease_token).move(state, **_RELEASED, **ended):
        raise LeaseLost
    _end_attempt(run, outcome, reason, log_tail)
    if state is State.QUEUED:
        transaction.on_commit(partial(dispatch.wake, run.environment_id), robust=True)
    elif state is State.CRASHED:
        run.state = state
        notify_verdict(run=run)
    return state


@transaction.atomic
def fail_attempt(*, token: uuid.UUID, reason: str, log_tail: str = "") -> State:
    """Give the run back after a fault that is not the submitter's, and return its new state. Raises LeaseLost."""
    return _give_back(_lock(token), Attempt.Outcome.INFRASTRUCTURE, reason, log_tail)


@transaction.atomic
def reap_expired_leases() -> int:
    """Give back every run whose worker went silent, and return how many there were."""
    runs = list(Run.objects.expired().select_for_update(skip_locked=True))
    for run in runs:
        _give_back(run, Attempt.Outcome.LEASE_EXPIRED, f"Worker {run.worker} went silent.")
    return len(runs)


def expire_leases_of(worker: str) -> int:
    """End the leases of a worker that is known to be dead, and return how many there were."""
    return Run.objects.filter(worker=worker).held().update(lease_expires_at=Now())


def _check_verdict(run: Run, verdict: VerdictBody) -> None:
    expected = (run.task_id, run.environment_id, run.source_id)
    found = (verdict.task, verdict.environment, verdict.solution_sha256)
    if found != expected:
        raise VerdictMismatch(f"The verdict is for {found}, the run for {expected}.")


@transaction.atomic
def finish_run(*, token: uuid.UUID, verdict: VerdictBody, log_tail: str = "") -> Verdict | None:
    """Write the verdict, once, with everything that follows from it. Of a run verified again it is a revision.

    An infrastructure fault is no verdict: the run is given back, and None returned.
    Raises LeaseLost, and VerdictMismatch for a verdict that is not this run's.
    """
    run = _lock(token)
    _check_verdict(run, verdict)
    if verdict.outcome is Outcome.INFRASTRUCTURE:
        reason = f"{verdict.primary_failure or 'The verifier could not decide.'} {verdict.evidence.error}".strip()
        _give_back(run, Attempt.Outcome.INFRASTRUCTURE, reason, log_tail)
        return None
    attempt = _end_attempt(run, Attempt.Outcome.FINISHED, "", log_tail)
    row = keep_verdict(run=run, attempt=attempt, verdict=verdict, reason="Verified again." if run.verdict_id else "")
    ended = {"finished_at": Coalesce("finished_at", Now()), "verdict": row}
    if not _held_by(token).move(State.FINISHED, **ended, **_RELEASED):
        raise LeaseLost
    refresh_standing(environment_id=run.environment_id, system_id=run.system_id, task_id=run.task_id)
    before, run.verdict, run.state = run.verdict, row, State.FINISHED
    notify_verdict(run=run)
    record_event(
        actor=None,
        agent=attempt.worker,
        action="verdict.write" if row.number == 1 else "verdict.revise",
        subject=run,
        before=summarise_verdict(before),
        after=summarise_verdict(row),
    )
    return row
