"""Runs that are verified again by the verifier of today."""

from __future__ import annotations

from django.db.models import F

from portal.runs.querysets import RunQuerySet
from portal.runs.states import State

# Whoever submits goes first.
LOW_PRIORITY = -10
ATTEMPTS = 3


def queue_again(runs: RunQuerySet) -> int:
    """Queue those of `runs` that have ended with a verdict, which stands meanwhile, and return how many there are."""
    ended = runs.filter(state=State.FINISHED, verdict__isnull=False)
    return ended.move(
        State.QUEUED, priority=LOW_PRIORITY, max_attempts=F("attempt") + ATTEMPTS, progress={}, cancel_requested_at=None
    )
