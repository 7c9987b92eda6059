"""The states of a run and the ways between them."""

from __future__ import annotations

from django.db import models


class State(models.TextChoices):
    QUEUED = "queued", "Queued"
    LEASED = "leased", "Starting"
    RUNNING = "running", "Running"
    FINISHED = "finished", "Finished"
    CANCELLED = "cancelled", "Cancelled"
    CRASHED = "crashed", "Crashed"


TRANSITIONS: dict[State, frozenset[State]] = {
    State.QUEUED: frozenset({State.LEASED, State.CANCELLED}),
    State.LEASED: frozenset({State.RUNNING, State.QUEUED, State.FINISHED, State.CANCELLED, State.CRASHED}),
    State.RUNNING: frozenset({State.QUEUED, State.FINISHED, State.CANCELLED, State.CRASHED}),
    State.FINISHED: frozenset(),
    State.CANCELLED: frozenset(),
    State.CRASHED: frozenset(),
}

# A worker holds the run.
HELD = frozenset({State.LEASED, State.RUNNING})
# Nothing more will happen to the run.
TERMINAL = frozenset(state for state, following in TRANSITIONS.items() if not following)
# Something will still happen to the run.
OPEN = frozenset(State) - TERMINAL


def list_sources(state: State) -> list[State]:
    """Return the states from which `state` can be reached."""
    return [source for source, following in TRANSITIONS.items() if state in following]
