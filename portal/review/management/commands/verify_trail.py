from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import connection

from portal.review.append_only import list_missing
from portal.review.models import TrailEvent
from portal.review.trail import find_break
from portal.runs.models import Verdict

GUARDED = (TrailEvent, Verdict)


class Command(BaseCommand):
    help = (
        "Verify every link of the trail, and that the database still refuses changes to it and to verdicts. "
        "Exit code 1, with the first broken link, when something does not hold."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--head",
            metavar="NUMBER:HASH",
            help="what an earlier verification printed: also verify that this event is still part of the trail",
        )

    def handle(self, *_: Any, head: str | None, **__: Any) -> None:
        found = find_break(TrailEvent.objects.order_by("number").iterator(chunk_size=2_000))
        if found:
            raise CommandError(f"The trail is broken at event {found.number}: {found.reason}.")
        if head:
            self.check_head(head)
        tables = [model._meta.db_table for model in GUARDED]  # noqa: SLF001  Django's own API
        if missing := [name for table in tables for name in list_missing(connection, table)]:
            raise CommandError(f"The database no longer refuses changes. Missing triggers: {', '.join(missing)}.")
        last = TrailEvent.objects.order_by("number").last()
        end = f"The head is {last.number}:{last.hash}" if last else "It is empty."
        self.stdout.write(f"The trail holds. {end}")

    def check_head(self, head: str) -> None:
        """Raise CommandError when the event that `head` names is not in the trail: its end was cut off."""
        number, _, digest = head.partition(":")
        if not number.isascii() or not number.isdigit():
            raise CommandError(f"--head {head} is not NUMBER:HASH, as this command prints it.")
        if not TrailEvent.objects.filter(number=int(number), hash=digest).exists():
            raise CommandError(f"The trail is broken at event {number}: it is not the event that was there before.")
