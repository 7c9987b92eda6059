"""What a team does with a campaign: begin a draft, put files into it, confirm or discard it, show its runs."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from enum import StrEnum

from django.core.exceptions import PermissionDenied, ValidationError
from django.db import transaction
from django.utils import timezone

from portal.accounts.models import Team, User
from portal.campaigns.file_names import clean_name
from portal.campaigns.models import Campaign, CampaignFile
from portal.campaigns.preview import Preview, Row, build_preview
from portal.catalog.models import Environment
from portal.review.trail import record_event
from portal.runs.models import Run
from portal.runs.quotas import claim_quota
from portal.runs.services import (
    cancel_runs,
    check_environment,
    check_source,
    check_visibility,
    check_wall_clock,
    keep_source,
    queue_run,
    record_submission,
)
from portal.runs.uploads import UploadError
from portal.standings.services import refresh_standing
from portal.systems.models import System

MAXIMUM_FILES = 300
# Files of drafts are kept in the database, so a team has few, and those that nobody touches end by themselves.
DRAFTS_A_TEAM = 5
DRAFT_LIFE = timedelta(days=7)
_LARGEST = 2**63


class CampaignConflict(ValidationError):
    """The draft is no longer what the request takes it for."""


class DuplicateFiles(CampaignConflict):
    """Bytes that are submitted already; confirm it to submit them again."""


class Put(StrEnum):
    """What became of a file that was put into a draft."""

    ADDED = "added"
    REPLACED = "replaced"
    RECOGNISED = "recognised"


def _check_member(system: System, user: User) -> None:
    if not System.objects.submittable_by(user).filter(pk=system.pk).exists():
        raise PermissionDenied(f"Only members of {system.team} submit runs of {system}.")


def _discard_forgotten_drafts(team: Team) -> None:
    forgotten = Campaign.objects.drafts().filter(team=team).untouched_since(timezone.now() - DRAFT_LIFE)
    # One that somebody confirms at this moment holds its own lock and waits for that of the team.
    for draft in forgotten.select_for_update(skip_locked=True):
        _discard(draft, None)


@transaction.atomic
def create_campaign(  # noqa: PLR0913  each is named at the call
    *,
    user: User,
    system: System,
    environment: Environment,
    title: str = "",
    visibility: str = Run.Visibility.PRIVATE,
    release_source: bool = False,
) -> Campaign:
    """Begin a draft. Raises ValidationError by field, and PermissionDenied when `user` is not in the system's team."""
    _check_member(system, user)
    check_visibility(visibility)
    check_environment(environment)
    team = Team.objects.select_for_update().get(pk=system.team_id)
    _discard_forgotten_drafts(team)
    if Campaign.objects.drafts().filter(team=team).count() >= DRAFTS_A_TEAM:
        raise ValidationError(f"Your team has {DRAFTS_A_TEAM} drafts. Confirm or discard one first.")
    campaign = Campaign(
        system=system,
        team=team,
        environment=environment,
        title=" ".join(title.split()),
        visibility=visibility,
        source_released=release_source,
        created_by=user,
    )
    campaign.full_clean(exclude=["submitted_at"])
    campaign.save()
    record_event(actor=user, action="campaign.create", subject=campaign, after=describe(campaign))
    return campaign


def describe(campaign: Campaign) -> dict[str, object]:
    """Return what the trail keeps of a campaign."""
    return {
        "system": campaign.system.slug,
        "environment": campaign.environment_id,
        "title": campaign.title,
        "visibility": campaign.visibility,
        "source_released": campaign.source_released,
    }


def _lock_draft(campaign: Campaign, user: User) -> Campaign:
    """Return the draft as it is now, and keep others from changing it. Raises PermissionDenied and CampaignConflict."""
    _check_member(campaign.system, user)
    row = Campaign.objects.select_for_update(of=["self"]).select_related("system__team", "environment", "team")
    draft = row.get(pk=campaign.pk)
    if draft.state == Campaign.State.SUBMITTED:
        when = f"{draft.submitted_at:%Y-%m-%d %H:%M:%S} UTC"
        raise CampaignConflict(f"This campaign was submitted at {when}, with {draft.runs.count()} runs.", code="done")
    if draft.state == Campaign.State.DISCARDED:
        raise CampaignConflict("This draft was discarded. Begin another one.", code="discarded")
    return draft


def _touch(draft: Campaign) -> None:
    draft.changed_at = timezone.now()
    draft.save(update_fields=["changed_at"])


@transaction.atomic
def put_file(
    *, campaign: Campaign, user: User, name: str, content: str | bytes, wall_clock_seconds: int | None = None
) -> tuple[CampaignFile, Put]:
    """Put a file into a draft; a name that is there already gets the new content.

    Raises ValidationError by field for a file that is refused, PermissionDenied, and CampaignConflict when the draft
    has ended.
    """
    try:
        path = clean_name(name)
    except UploadError as error:
        raise ValidationError({"name": str(error)}) from error
    text, data = check_source(content)
    check_wall_clock(wall_clock_seconds)
    draft = _lock_draft(campaign, user)
    digest = hashlib.sha256(data).hexdigest()
    present = draft.files.filter(name=path).first()
    if present and (present.sha256, present.wall_clock_seconds) == (digest, wall_clock_seconds):
        return present, Put.RECOGNISED
    if not present and draft.files.count() >= MAXIMUM_FILES:
        raise ValidationError({"name": f"The draft has {MAXIMUM_FILES} files, and no campaign has more. Remove some."})
    values = {"sha256": digest, "text": text, "bytes": len(data), "wall_clock_seconds": wall_clock_seconds}
    file, _ = CampaignFile.objects.update_or_create(campaign=draft, name=path, defaults=values)
    _touch(draft)
    return file, Put.REPLACED if present else Put.ADDED


@transaction.atomic
def remove_files(*, campaign: Campaign, user: User, files: list[int]) -> int:
    """Take files out of a draft, by their numbers, and return how many. Raises as `put_file` does."""
    draft = _lock_draft(campaign, user)
    # SQLite takes no larger number.
    removed, _ = draft.files.filter(pk__in=[number for number in files if number < _LARGEST]).delete()
    if removed:
        _touch(draft)
    return removed


@transaction.atomic
def discard_campaign(*, campaign: Campaign, user: User) -> Campaign:
    """End a draft and forget its files. Raises PermissionDenied and CampaignConflict."""
    return _discard(_lock_draft(campaign, user), user)


def _discard(draft: Campaign, user: User | None) -> Campaign:
    files, _ = draft.files.all().delete()
    draft.state = Campaign.State.DISCARDED
    draft.save(update_fields=["state"])
    agent = "" if user else "the portal"
    record_event(actor=user, action="campaign.discard", subject=draft, before={"files": files}, agent=agent)
    return draft


def _check_confirmable(preview: Preview, digest: str | None, *, allow_duplicates: bool) -> None:
    if not preview.rows:
        raise ValidationError("The draft has no files. Add some first.")
    if digest is not None and digest != preview.digest:
        raise CampaignConflict(
            "The draft has changed since you looked at it. Look at it again, then confirm.", code="changed"
        )
    if preview.problems:
        first = preview.problems[0]
        count = len(preview.problems)
        raise ValidationError(
            f"No run can be made of {count} of the files, such as {first.file.name}: {first.problem} "
            "Mend or remove them first. Nothing was submitted."
        )
    if preview.duplicates and not allow_duplicates:
        first = preview.duplicates[0]
        raise DuplicateFiles(
            f"The bytes of {len(preview.duplicates)} of the files, such as {first.file.name}, are submitted for the same "
            "task already. Confirm that you want to submit them again.",
            code="duplicate",
        )


def _queue(draft: Campaign, user: User, row: Row, text: str) -> Run:
    if row.task is None or row.repetition is None:
        raise ValueError(f"{row.file.name} has a problem")
    return queue_run(
        user=user,
        task=row.task,
        environment=draft.environment,
        system=draft.system,
        text=text,
        content=text.encode(),
        visibility=draft.visibility,
        release_source=draft.source_released,
        wall_clock_seconds=row.file.wall_clock_seconds,
        campaign=draft,
        repetition=row.repetition,
    )


@transaction.atomic
def confirm_campaign(
    *, campaign: Campaign, user: User, digest: str | None = None, allow_duplicates: bool = False
) -> Campaign:
    """Queue a run for every file of a draft, or for none.

    `digest` says which draft was looked at. Raises ValidationError, QuotaExceeded, PermissionDenied, CampaignConflict
    when the draft has ended or changed, and DuplicateFiles unless `allow_duplicates`.
    """
    draft = _lock_draft(campaign, user)
    preview = build_preview(draft, user)
    _check_confirmable(preview, digest, allow_duplicates=allow_duplicates)
    check_environment(draft.environment)
    claim_quota(draft.team, len(preview.rows))
    texts = dict(draft.files.values_list("pk", "text"))
    draft.state, draft.submitted_at = Campaign.State.SUBMITTED, timezone.now()
    draft.save(update_fields=["state", "submitted_at"])
    # In one order, so that of two teams that submit the same bytes neither waits for the other.
    for row in sorted(preview.rows, key=lambda row: row.file.sha256):
        keep_source(texts[row.file.pk], texts[row.file.pk].encode())
    runs = [_queue(draft, user, row, texts[row.file.pk]) for row in preview.rows]
    draft.files.all().delete()
    for run in runs:
        record_submission(run)
    after = describe(draft) | {"runs": len(preview.rows), "digest": preview.digest}
    record_event(actor=user, action="campaign.confirm", subject=draft, after=after)
    return draft


@transaction.atomic
def show_campaign(*, campaign: Campaign, user: User, visibility: str, release_source: bool) -> Campaign:
    """Change who sees all runs of a campaign, and their sources. Raises PermissionDenied and ValidationError."""
    _check_member(campaign.system, user)
    check_visibility(visibility)
    row = Campaign.objects.select_for_update(of=["self"]).select_related("system", "environment").get(pk=campaign.pk)
    if row.state == Campaign.State.DISCARDED:
        raise CampaignConflict("This draft was discarded. Begin another one.", code="discarded")
    before = describe(row)
    row.visibility, row.source_released = visibility, release_source
    row.save(update_fields=["visibility", "source_released"])
    row.runs.update(visibility=visibility, source_released=release_source)
    if row.state == Campaign.State.SUBMITTED:
        refresh_standing(environment_id=row.environment_id, system_id=row.system_id)
    record_event(actor=user, action="campaign.show", subject=row, before=before, after=describe(row))
    return row


@transaction.atomic
def cancel_campaign(*, campaign: Campaign, user: User) -> int:
    """Cancel the runs of a campaign that have no verdict yet, and return how many. Raises PermissionDenied."""
    _check_member(campaign.system, user)
    # One at a time changes the rows of a campaign.
    row = Campaign.objects.select_for_update().get(pk=campaign.pk)
    return cancel_runs(runs=row.runs.awaiting_verdict().filter(cancel_requested_at__isnull=True), user=user)
