"""Which states the database accepts, whoever writes them."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.db.models.functions import Now

from portal.runs.models import Run
from portal.runs.states import HELD, OPEN, TERMINAL, TRANSITIONS, State, list_sources

LEASE = {"lease_token": uuid.UUID(int=1), "lease_expires_at": Now()}


@pytest.mark.parametrize(
    ("constraint", "fields"),
    [
        ("run_state_known", {"state": "lost"}),
        ("run_visibility_known", {"visibility": "secret"}),
        ("run_attempts_bounded", {"state": "crashed", "finished_at": Now(), "attempt": 4}),
        ("run_queued_consistent", LEASE),
        ("run_queued_consistent", {"worker": "somebody"}),
        ("run_queued_consistent", {"finished_at": Now()}),
        ("run_queued_consistent", {"attempt": 3}),
        ("run_held_consistent", {"state": "leased", "attempt": 1, "started_at": Now()}),
        ("run_held_consistent", {"state": "running", "attempt": 0, "started_at": Now(), **LEASE}),
        ("run_held_consistent", {"state": "running", "attempt": 1, **LEASE}),
        ("run_held_consistent", {"state": "leased", "attempt": 1, "started_at": Now(), "finished_at": Now(), **LEASE}),
        ("run_ended_consistent", {"state": "finished"}),
        ("run_ended_consistent", {"state": "cancelled", "finished_at": Now(), **LEASE}),
        ("run_ended_consistent", {"state": "crashed", "finished_at": Now(), "worker": "somebody"}),
    ],
)
def test_an_inconsistent_row_is_refused(run: Run, constraint: str, fields: dict[str, Any]) -> None:
    with pytest.raises(IntegrityError, match=constraint), transaction.atomic():
        Run.objects.filter(pk=run.pk).update(**fields)


def test_an_ended_run_goes_nowhere(run: Run) -> None:
    row = Run.objects.filter(pk=run.pk)
    assert row.move(State.CANCELLED, finished_at=Now()) == 1
    assert [row.move(state) for state in State] == [0] * len(State)


def test_every_open_state_leads_to_an_end() -> None:
    reached: set[State] = set()
    frontier = {State.QUEUED}
    while frontier:
        reached |= frontier
        frontier = {following for state in frontier for following in TRANSITIONS[state]} - reached
    assert reached == set(State)
    assert all(TRANSITIONS[state] & (TERMINAL | HELD) for state in OPEN)


def test_only_a_run_with_a_verdict_is_queued_again() -> None:
    assert set(list_sources(State.QUEUED)) - HELD == {State.FINISHED}


def test_only_a_held_run_finishes() -> None:
    assert set(list_sources(State.FINISHED)) == HELD
