"""People, a catalogue and a system, as most tests of the portal need them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from django.db import connection
from django.db.backends.base.operations import BaseDatabaseOperations
from pytest_django import Settings

from portal.accounts.models import Team, User
from portal.accounts.services import add_member, create_team
from portal.catalog.models import Environment, Task
from portal.catalog.services import load_catalog
from portal.review.append_only import guard_table, release_table
from portal.runs.models import Run
from portal.runs.services import submit_run
from portal.systems.models import System
from portal.systems.services import create_system
from tests.portal.factories import SOURCE


@dataclass(frozen=True)
class People:
    """Alice owns the team, Bob is a member of it, Charlie is a stranger with a team of his own; staff is a reviewer."""

    alice: User
    bob: User
    charlie: User
    staff: User
    admin: User
    team: Team
    other_team: Team


GUARDED = {"review_trailevent": ("number", "hash", "previous_hash"), "runs_verdict": ("id",)}


@pytest.fixture(scope="session", autouse=True)
def _emptying_of_guarded_tables() -> Iterator[None]:
    """Let the test database be emptied between tests that commit, although no row of some tables may be deleted."""
    empty = BaseDatabaseOperations.execute_sql_flush

    def release_and_empty(self: BaseDatabaseOperations, statements: list[str]) -> None:
        for table in GUARDED:
            release_table(connection, table)
        empty(self, statements)
        for table, unique in GUARDED.items():
            guard_table(connection, table, unique)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BaseDatabaseOperations, "execute_sql_flush", release_and_empty)
        yield


@pytest.fixture(autouse=True)
def plain_static_files(settings: Settings) -> None:
    """Pages name the static files as they are, so that no test needs `collectstatic`."""
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = {**settings.STORAGES, "staticfiles": plain}


@pytest.fixture(autouse=True)
def own_cache(settings: Settings) -> None:
    """Give each test a cache of its own, so that no throttle remembers the test before."""
    backend = "django.core.cache.backends.locmem.LocMemCache"
    settings.CACHES = {"default": {"BACKEND": backend, "LOCATION": uuid.uuid4().hex}}


def add_second_factor(user: User) -> None:
    """Give `user` an authenticator app, as reviewers and administrators must have."""
    Authenticator.objects.create(user=user, type=Authenticator.Type.TOTP, data={"secret": "JBSWY3DPEHPK3PXP"})


@pytest.fixture
def people(db: None) -> People:
    alice, bob, charlie = (User.objects.create_user(name) for name in ("alice", "bob", "charlie"))
    staff = User.objects.create_user("staff", is_staff=True)
    admin = User.objects.create_superuser("admin")
    for user in (staff, admin):
        add_second_factor(user)
    team = create_team(slug="kernels", name="Kernel team", owner=alice)
    add_member(team=team, user=bob)
    return People(alice, bob, charlie, staff, admin, team, create_team(slug="others", name="Other team", owner=charlie))


@pytest.fixture
def catalog(db: None) -> None:
    load_catalog()


@pytest.fixture
def task(catalog: None) -> Task:
    return Task.objects.get(id="l1-09")


@pytest.fixture
def environment(catalog: None) -> Environment:
    return Environment.objects.get(slug="cpu-interpreter")


@pytest.fixture
def system(people: People) -> System:
    return create_system(slug="hand-written", name="Hand-written", team=people.team)


class Submit:
    """Submits runs as Alice, with whatever is given in place of the usual."""

    def __init__(self, **usual: Any) -> None:
        self.usual = usual

    def __call__(self, **given: Any) -> Run:
        return submit_run(**self.usual | given)


@pytest.fixture
def submit(people: People, task: Task, environment: Environment, system: System) -> Submit:
    return Submit(user=people.alice, task=task, environment=environment, system=system, source=SOURCE)


@pytest.fixture
def run(submit: Submit) -> Run:
    return submit()
