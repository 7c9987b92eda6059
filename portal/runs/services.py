"""What people do with runs: submit, cancel, show. The worker's side is in `lease`."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

from django.core.exceptions import PermissionDenied, ValidationError
from django.db import transaction
from django.db.models.functions import Coalesce, Now

from portal.accounts.models import User
from portal.catalog.models import Environment, Task
from portal.review.trail import record_event
from portal.runs.models import Run, Source
from portal.runs.quotas import claim_quota
from portal.runs.states import HELD, State
from portal.runs.uploads import UploadError, decode_source
from portal.standings.services import refresh_standing
from portal.systems.models import System

if TYPE_CHECKING:
    # Its module imports the runs.
    from portal.campaigns.models import Campaign

# Seconds; whatever is longer than a week is a mistake in the unit.
LONGEST_WALL_CLOCK = 7 * 24 * 3600


def check_source(source: str | bytes) -> tuple[str, bytes]:
    """Return the submission as text and bytes. Raises ValidationError on the field `source`."""
    try:
        content = source.encode() if isinstance(source, str) else source
        return decode_source(content), content
    except UnicodeEncodeError as error:
        reason = f"Character {error.start} of the text is not valid Unicode. Remove it."
        raise ValidationError({"source": reason}) from error
    except UploadError as error:
        raise ValidationError({"source": str(error)}) from error


def keep_source(text: str, content: bytes) -> Source:
    """Return the row for this submission's bytes, which may have been submitted before."""
    digest = hashlib.sha256(content).hexdigest()
    lines = text.count("\n") + (not text.endswith("\n"))
    source, _ = Source.objects.get_or_create(
        sha256=digest, defaults={"text": text, "bytes": len(content), "lines": lines}
    )
    return source


def check_environment(environment: Environment) -> None:
    """Raise ValidationError unless runs for `environment` are taken."""
    served = [known.slug for known in Environment.objects.served()]
    if environment.slug not in served:
        reason = f"No worker of this installation serves {environment.slug}. Choose one of: {', '.join(served)}."
        raise ValidationError({"environment": reason})


def check_visibility(visibility: str) -> None:
    """Raise ValidationError unless there is such a visibility."""
    if visibility not in Run.Visibility.values:
        raise ValidationError({"visibility": f"Choose one of: {', '.join(Run.Visibility.values)}."})


def _check_target(task: Task, environment: Environment) -> None:
    if not task.active:
        raise ValidationError({"task": f"Task {task.id} is no longer part of the benchmark. Choose another one."})
    check_environment(environment)


def check_wall_clock(seconds: int | None) -> None:
    """Raise ValidationError for a time that no agent worked."""
    if seconds is not None and not 0 < seconds <= LONGEST_WALL_CLOCK:
        reason = f"Give whole seconds, from 1 to {LONGEST_WALL_CLOCK:,}, or leave it out."
        raise ValidationError({"wall_clock_seconds": reason})


class DuplicateRun(ValidationError):
    """The same bytes are submitted for the same task, system and environment already."""

    def __init__(self, earlier: Run) -> None:
        when = f"{earlier.queued_at:%Y-%m-%d %H:%M} UTC"
        super().__init__(
            f"The same bytes were submitted for this task and system at {when}. Nothing was submitted now.",
            code="duplicate",
        )
        self.earlier = earlier


def queue_run(  # noqa: PLR0913  each is named at the call
    *,
    user: User,
    task: Task,
    environment: Environment,
    system: System,
    text: str,
    content: bytes,
    visibility: str,
    release_source: bool,
    wall_clock_seconds: int | None = None,
    campaign: Campaign | None = None,
    repetition: int | None = None,
) -> Run:
    """Queue a solution whose request was found to be good, within the transaction of the caller.

    The caller records the submission when all its rows are written.
    """
    return Run.objects.create(
        task=task,
        task_digest=task.digest,
        environment=environment,
        system=system,
        team=system.team,
        submitted_by=user,
        source=keep_source(text, content),
        source_released=release_source,
        visibility=visibility,
        wall_clock_seconds=wall_clock_seconds,
        campaign=campaign,
        repetition=repetition,
    )


def record_submission(run: Run) -> None:
    """Append to the trail that a run was submitted."""
    submitted = {"task": run.task_id, "environment": run.environment_id, "system": run.system.slug}
    submitted |= {"source": run.source_id, "visibility": run.visibility}
    record_event(actor=run.submitted_by, action="run.submit", subject=run, after=submitted)


@transaction.atomic
def submit_run(  # noqa: PLR0913  each is named at the call
    *,
    user: User,
    task: Task,
    environment: Environment,
    system: System,
    source: str | bytes,
    visibility: str = Run.Visibility.PRIVATE,
    release_source: bool = False,
    wall_clock_seconds: int | None = None,
    allow_duplicate: bool = True,
) -> Run:
    """Queue a solution for judgement.

    Raises ValidationError, by field, for a bad submission, QuotaExceeded when the team has submitted too many,
    DuplicateRun unless `allow_duplicate` when the same bytes were submitted before, and PermissionDenied when `user` is
    not in the team that owns `system`.
    """
    if not System.objects.submittable_by(user).filter(pk=system.pk).exists():
        raise PermissionDenied(f"Only members of {system.team} submit runs of {system}.")
    check_visibility(visibility)
    _check_target(task, environment)
    check_wall_clock(wall_clock_seconds)
    text, content = check_source(source)
    claim_quota(system.team)
    if not allow_duplicate:
        # Under the lock of the team, so that of two clicks at once the second finds the run of the first.
        _check_new(user, task, environment, system, content)
    run = queue_run(
        user=user,
        task=task,
        environment=environment,
        system=system,
        text=text,
        content=content,
        visibility=visibility,
        release_source=release_source,
        wall_clock_seconds=wall_clock_seconds,
    )
    record_submission(run)
    return run


def _check_new(user: User, task: Task, environment: Environment, system: System, content: bytes) -> None:
    runs = Run.objects.visible_to(user).submitted_for(system=system, environment=environment)
    digest = hashlib.sha256(content).hexdigest()
    if earlier := runs.filter(task=task, source=digest).order_by("-queued_at", "-id").first():
        raise DuplicateRun(earlier)


def _check_owner(run: Run, user: User) -> None:
    if not run.is_owned_by(user):
        raise PermissionDenied("Only members of the team and administrators change a run.")


@transaction.atomic
def cancel_run(*, run: Run, user: User) -> Run:
    """Cancel a waiting run at once, or ask the worker to stop a run in progress.

    Raises PermissionDenied, and ValidationError when the run has ended.
    """
    _check_owner(run, user)
    before = run.state
    _stop(run)
    _record_cancellation(run, user, before)
    return run


@transaction.atomic
def cancel_runs(*, runs: Iterable[Run], user: User) -> int:
    """Cancel those of `runs` that have not ended, and return how many. Raises PermissionDenied."""
    stopped = []
    for run in runs:
        _check_owner(run, user)
        before = run.state
        # Some get their verdict meanwhile.
        with contextlib.suppress(ValidationError):
            _stop(run)
            stopped.append((run, before))
    # Last of all: a worker that waits for the trail holds the row of its run.
    for run, before in stopped:
        _record_cancellation(run, user, before)
    return len(stopped)


def _stop(run: Run) -> None:
    # A run that is verified again has ended: its submitter may not stop what a reviewer asked for.
    row = Run.objects.filter(pk=run.pk, verdict__isnull=True)
    waiting = row.filter(state=State.QUEUED)
    if not waiting.move(State.CANCELLED, finished_at=Now(), cancel_requested_at=Now()):
        held = row.filter(state__in=HELD)
        if not held.update(cancel_requested_at=Coalesce("cancel_requested_at", Now())):
            raise ValidationError("This run has ended and cannot be cancelled.", code="ended")
    run.refresh_from_db()


def _record_cancellation(run: Run, user: User, before: str) -> None:
    record_event(actor=user, action="run.cancel", subject=run, before={"state": before}, after={"state": run.state})


@transaction.atomic
def set_visibility(*, run: Run, user: User, visibility: str, release_source: bool) -> Run:
    """Change who sees a run and its source. Raises PermissionDenied and ValidationError."""
    _check_owner(run, user)
    check_visibility(visibility)
    if run.campaign_id is not None:
        # Otherwise a team could hide the runs that it does not like.
        raise ValidationError("The runs of a campaign are shown together. Change it on the page of the campaign.")
    before = {"visibility": run.visibility, "source_released": run.source_released}
    after = {"visibility": visibility, "source_released": release_source}
    Run.objects.filter(pk=run.pk).update(**after)
    refresh_standing(environment_id=run.environment_id, system_id=run.system_id, task_id=run.task_id)
    run.refresh_from_db()
    record_event(actor=user, action="run.show", subject=run, before=before, after=after)
    return run
