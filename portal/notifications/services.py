"""Telling people, and the switches for it. Nothing is sent here: `delivery` does that, in a process of its own."""

from __future__ import annotations

import secrets
from typing import Any

from django.core.exceptions import PermissionDenied, ValidationError
from django.db import transaction
from django.db.models.functions import Now
from django.urls import reverse
from django.utils import timezone

from portal.accounts.models import Membership, Team, User
from portal.notifications.addresses import check_address
from portal.notifications.kinds import Kind
from portal.notifications.models import Delivery, Notification, Preference, Webhook
from portal.review.trail import record_event
from portal.runs.labels import OUTCOME_LABELS
from portal.runs.models import Run
from verifier.verdict import Outcome

Switches = dict[str, tuple[bool, bool]]


def list_readers(team: Team, run: Run | None) -> list[User]:
    """Return who is told: the team, or only the submitter of a run that nobody else sees."""
    # A worker's database role reads no more of an account.
    members = User.objects.filter(memberships__team=team, is_active=True).only("id")
    if run and run.visibility == Run.Visibility.PRIVATE:
        members = members.filter(pk=run.submitted_by_id)
    return list(members)


@transaction.atomic
def notify(
    *, kind: str, team: Team, text: str, run: Run | None = None, actor: User | None = None
) -> list[Notification]:
    """Tell the members of `team`, and its webhook, but not the `actor` who did it. Call it inside your transaction."""
    told = _tell_people(kind, team, text, run, actor)
    _call_webhook(kind, team, text, run)
    return told


def _tell_people(kind: str, team: Team, text: str, run: Run | None, actor: User | None = None) -> list[Notification]:
    readers = [user for user in list_readers(team, run) if user != actor]
    switches = {row.user_id: row for row in Preference.objects.filter(kind=kind, user__in=readers)}
    told = []
    for user in readers:
        wanted = switches.get(user.pk) or Preference(user=user, kind=kind)
        if wanted.in_page or wanted.by_mail:
            row = Notification.objects.create(user=user, kind=kind, text=text[:300], run=run, in_page=wanted.in_page)
            told.append(row)
            if wanted.by_mail:
                Delivery.objects.create(notification=row)
    return told


def _call_webhook(kind: str, team: Team, text: str, run: Run | None) -> None:
    # A worker's database role does not see the secret.
    webhook = Webhook.objects.filter(team=team, active=True).only("id").first()
    if webhook and not (run and run.visibility == Run.Visibility.PRIVATE):
        Delivery.objects.create(webhook=webhook, payload=build_payload(kind, team, text, run))


def build_payload(kind: str, team: Team, text: str, run: Run | None) -> dict[str, Any]:
    """Return what a webhook is sent."""
    payload: dict[str, Any] = {"kind": kind, "team": team.slug, "text": text, "at": timezone.now().isoformat()}
    if run is None:
        return payload | {"run": None}
    verdict = run.verdict
    return payload | {
        "run": {
            "id": str(run.public_id),
            "path": reverse("runs:run_detail", args=[run.public_id]),
            "task": run.task_id,
            "system": run.system.slug,
            "environment": run.environment_id,
            "state": run.state,
            "outcome": verdict.outcome if verdict else None,
            "primary_failure": (verdict.primary_failure or None) if verdict else None,
        }
    }


@transaction.atomic
def notify_verdict(*, run: Run) -> None:
    """Tell the team of a run how it ended; of a campaign its webhook each time, and people once when all has ended."""
    verdict = run.verdict
    if verdict is None:
        words = "could not be judged, because the verifier failed. It costs no quota"
    else:
        words = OUTCOME_LABELS[Outcome(verdict.outcome)].lower()
        words += f" ({verdict.primary_failure})" if verdict.primary_failure else ""
    text = f"{run.task_id} by {run.system}: {words}."
    if run.campaign_id is None or (verdict is not None and verdict.number > 1):
        notify(kind=Kind.VERDICT, team=run.team, run=run, text=text)
        return
    _call_webhook(Kind.VERDICT, run.team, text, run)
    runs = Run.objects.filter(campaign=run.campaign_id)
    if not runs.open().exists():
        # A worker's database role reads no verdict of a private run that has ended, so outcomes are not counted here.
        judged, count = runs.filter(verdict__isnull=False).count(), runs.count()
        words = f"All runs of a campaign of {run.system} have ended: {judged} of {count} have a verdict."
        _tell_people(Kind.VERDICT, run.team, words, run)


def mark_read(*, user: User) -> None:
    """Note that `user` has read everything so far."""
    Notification.objects.filter(user=user, read_at__isnull=True).update(read_at=Now())


@transaction.atomic
def set_preferences(*, user: User, switches: Switches) -> None:
    """Keep for each kind whether `user` is told in the page and by mail."""
    for kind, (in_page, by_mail) in switches.items():
        Preference.objects.update_or_create(
            user=user, kind=Kind(kind), defaults={"in_page": in_page, "by_mail": by_mail}
        )


@transaction.atomic
def set_webhook(*, team: Team, user: User, url: str) -> Webhook | None:
    """Set where `team` is told, with a new secret; an empty address ends it.

    Raises ValidationError for an address that may not be called, and PermissionDenied.
    """
    managers = (Membership.Role.OWNER, Membership.Role.MAINTAINER)
    if not team.memberships.filter(user=user, role__in=managers).exists():
        raise PermissionDenied("Only owners and maintainers set the webhook of a team.")
    before = Webhook.objects.filter(team=team).values_list("url", flat=True).first()
    webhook = None
    if url:
        _check_url(url)
        values = {"url": url, "secret": secrets.token_hex(32), "active": True}
        webhook, _ = Webhook.objects.update_or_create(team=team, defaults=values)
    else:
        Webhook.objects.filter(team=team).delete()
    record_event(actor=user, action="team.webhook", subject=team, before={"url": before}, after={"url": url or None})
    return webhook


def _check_url(url: str) -> None:
    try:
        check_address(url)
    except ValueError as error:
        raise ValidationError({"url": str(error)}) from error
