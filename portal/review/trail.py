"""The trail: what was done, by whom and when, as a chain that only grows.

Each event's hash covers the event and the hash before it. A lock lets one writer append at a time, so that the chain
never forks, and it is held until the writer's transaction ends: record events last.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import AnonymousUser
from django.db import connection, models, transaction
from django.http import HttpRequest
from django.utils import timezone

from portal.accounts.models import User
from portal.review.middleware import get_origin
from portal.review.models import TrailEvent
from portal.review.querysets import name_subject
from portal.runs.models import Run

FIRST_HASH = "0" * 64
_CHAIN_LOCK = 0x6B71_7472_6169_6C01

Values = Mapping[str, Any]


@dataclass(frozen=True)
class Break:
    """The first link of the chain that does not hold."""

    number: int
    reason: str


def write_canonical(values: object) -> str:
    """Return JSON in its one form: keys sorted, no spaces, ASCII alone."""
    return json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False, default=str)


def compute_hash(event: TrailEvent) -> str:
    """Return the hash that `event` must have."""
    names = ("number", "actor_id", "actor_name", "action", "subject_type", "subject_id", "before", "after")
    values = {name: getattr(event, name) for name in (*names, "request_id", "address", "previous_hash")}
    return hashlib.sha256(write_canonical(values | {"at": event.at.isoformat()}).encode()).hexdigest()


def lock_chain() -> None:
    """Wait until no other transaction appends. On SQLite a transaction is the only writer already."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_CHAIN_LOCK])


@transaction.atomic
def record_event(  # noqa: PLR0913  each is named at the call
    *,
    actor: User | AnonymousUser | None,
    action: str,
    subject: models.Model,
    before: Values | None = None,
    after: Values | None = None,
    request: HttpRequest | None = None,
    agent: str = "",
) -> TrailEvent:
    """Append what was done to the trail, in the transaction that does it.

    Without an actor, `agent` says who it was, such as a worker. The request that is being answered is found by itself.
    """
    lock_chain()
    # These two columns are all that a worker's database role reads of the trail.
    number, previous_hash = TrailEvent.objects.order_by("-number").values_list("number", "hash").first() or (
        0,
        FIRST_HASH,
    )
    person = actor if isinstance(actor, User) else None
    origin = get_origin(request)
    event = TrailEvent(
        number=number + 1,
        at=timezone.now(),
        actor=person,
        actor_name=person.get_username() if person else agent[:150],
        action=action,
        before=write_canonical(before),
        after=write_canonical(after),
        request_id=origin.request_id,
        address=origin.address,
        previous_hash=previous_hash,
        **name_subject(subject),
    )
    event.hash = compute_hash(event)
    event.save(force_insert=True)
    return event


def note_source_reading(*, run: Run, reader: User | AnonymousUser, request: HttpRequest | None = None) -> None:
    """Record that somebody read a source that only staff may read: not released, and not of the reader's team."""
    if not run.source_released and isinstance(reader, User) and not run.is_shared_with(reader):
        record_event(actor=reader, action="source.read", subject=run, request=request)


def find_break(events: Iterable[TrailEvent]) -> Break | None:
    """Return the first of `events`, from the beginning of the trail, whose link does not hold, or None."""
    previous = FIRST_HASH
    for number, event in enumerate(events, 1):
        if event.number != number:
            return Break(number, f"it is missing; the next one that is there is {event.number}")
        if event.previous_hash != previous:
            return Break(number, "it does not follow the event before it")
        if event.hash != compute_hash(event):
            return Break(number, "its content was changed")
        previous = event.hash
    return None
