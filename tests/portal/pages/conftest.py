"""Visitors in their roles, and a run that was judged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import pytest
from django.test import Client
from pytest_django import Settings

from portal.accounts.models import User
from portal.runs import lease
from portal.runs.models import Run
from tests.conftest import People
from tests.portal.factories import judge
from verifier.verdict import Verdict

WORKER = "host:cpu-interpreter"
Visit = Callable[[str], Client]


class Finish(Protocol):
    def __call__(self, run: Run, build: Callable[..., Verdict] = judge, *codes: object, **given: object) -> Run: ...


@pytest.fixture(autouse=True)
def _plain_static_files(settings: Settings) -> None:
    """Name static files as they lie: their hashed names exist only after `collectstatic`."""
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = settings.STORAGES | {"staticfiles": plain}


@pytest.fixture
def visit(people: People) -> Visit:
    """Return a browser of somebody: anonymous, alice (submitter), bob (her team), charlie (a stranger), staff."""

    def start(role: str) -> Client:
        client = Client()
        if role != "anonymous":
            user: User = getattr(people, role)
            client.force_login(user)
        return client

    return start


def start_run(run: Run) -> Run:
    """Let a worker hold `run`, which must be the next one due."""
    held = lease.claim_run(environment=run.environment_id, worker=WORKER)
    assert held is not None
    assert held.lease_token is not None
    assert held.pk == run.pk
    lease.begin_run(token=held.lease_token)
    return held


@pytest.fixture
def finish() -> Finish:
    """Let a worker judge a run."""

    def judge_run(run: Run, build: Callable[..., Verdict] = judge, *codes: object, **given: object) -> Run:
        held = start_run(run)
        assert held.lease_token is not None
        lease.finish_run(token=held.lease_token, verdict=build(held, *codes, **given))
        held.refresh_from_db()
        return held

    return judge_run
