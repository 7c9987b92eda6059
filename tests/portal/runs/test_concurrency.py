"""Several workers at once, each with a connection of its own."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import TypeVar

import pytest
from django.db import connection
from pytest_django import Settings

from portal.runs import lease
from portal.runs.lease import LeaseLost
from portal.runs.models import Attempt, Run, Verdict
from portal.runs.services import submit_run
from portal.runs.states import State
from portal.standings.models import Standing
from tests.conftest import Submit
from tests.portal.factories import judge

pytestmark = pytest.mark.django_db(transaction=True)

Value = TypeVar("Value")

WORKERS = 6


def do_at_once(deed: Callable[[int], Value]) -> list[Value]:
    """Return what `deed` gives in each of several threads that start together."""
    barrier = threading.Barrier(WORKERS)

    def act(number: int) -> Value:
        barrier.wait()
        try:
            return deed(number)
        finally:
            connection.close()

    with ThreadPoolExecutor(WORKERS) as pool:
        return list(pool.map(act, range(WORKERS)))


def claim_all(number: int) -> list[int]:
    claimed = []
    while run := lease.claim_run(environment="cpu-interpreter", worker=f"worker-{number}"):
        claimed.append(run.pk)
    return claimed


def test_one_run_has_one_winner(run: Run) -> None:
    claims = do_at_once(claim_all)
    assert list(chain(*claims)) == [run.pk]
    assert Attempt.objects.count() == 1


def test_many_runs_are_each_claimed_once(submit: Submit) -> None:
    runs = [submit().pk for _ in range(24)]
    claims = Counter(chain(*do_at_once(claim_all)))
    assert claims == Counter(runs)


def test_one_of_many_finishes_wins(submit: Submit) -> None:
    run = submit(visibility="public")
    claimed = lease.claim_run(environment="cpu-interpreter", worker="w")
    assert claimed is not None
    token = claimed.lease_token
    assert token is not None

    def finish(_: int) -> bool:
        try:
            return lease.finish_run(token=token, verdict=judge(run)) is not None
        except LeaseLost:
            return False

    assert sorted(do_at_once(finish)) == [False] * (WORKERS - 1) + [True]
    assert Verdict.objects.count() == Standing.objects.get().runs == 1


def test_a_lease_is_reaped_once(run: Run, settings: Settings) -> None:
    settings.LEASE_SECONDS = 0
    lease.claim_run(environment="cpu-interpreter", worker="w")
    assert sum(do_at_once(lambda _: lease.reap_expired_leases())) == 1
    assert Run.objects.get().state == State.QUEUED


def test_verdicts_at_once_are_all_in_the_standing(submit: Submit) -> None:
    for _ in range(WORKERS):
        submit(visibility="public")

    def judge_one(number: int) -> None:
        run = lease.claim_run(environment="cpu-interpreter", worker=f"worker-{number}")
        if run is not None and run.lease_token is not None:
            lease.finish_run(token=run.lease_token, verdict=judge(run))

    do_at_once(judge_one)
    # On PostgreSQL a claim may pass over rows that others are just claiming.
    while Run.objects.open().exists():
        judge_one(WORKERS)
    standing = Standing.objects.get()
    assert (standing.runs, standing.accepted, standing.tasks) == (WORKERS, WORKERS, 1)


def test_the_same_source_at_once_is_kept_once(submit: Submit) -> None:
    do_at_once(lambda _: submit_run(**submit.usual))
    assert Run.objects.count() == WORKERS
    assert Run.objects.values("source").distinct().count() == 1
