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
    # To be verified again; the verdict stands meanwhile.
    State.FINISHED: frozenset({State.QUEUED}),
    State.CANCELLED: frozenset(),
    State.CRASHED: frozenset(),
}

# A worker holds the run.
HELD = frozenset({State.LEASED, State.RUNNING})
# Nothing more will happen to the run, unless a reviewer has it verified again.
TERMINAL = frozenset({State.FINISHED, State.CANCELLED, State.CRASHED})
# Something will still happen to the run.
OPEN = frozenset(State) - TERMINAL


def list_sources(state: State) -> list[State]:
    """Return the states from which `state` can be reached."""
    return [source for source, following in TRANSITIONS.items() if state in following]
