"""People, a catalogue and a system, as most tests of the portal need them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from pytest_django import Settings

from portal.accounts.models import Team, User
from portal.accounts.services import add_member, create_team
from portal.catalog.models import Environment, Task
from portal.catalog.services import load_catalog
from portal.runs.models import Run
from portal.runs.services import submit_run
from portal.systems.models import System
from portal.systems.services import create_system
from tests.portal.factories import SOURCE


@dataclass(frozen=True)
class People:
    """Alice owns the team, Bob is a member of it, Charlie is a stranger with a team of his own."""

    alice: User
    bob: User
    charlie: User
    staff: User
    team: Team
    other_team: Team


@pytest.fixture(autouse=True)
def plain_static_files(settings: Settings) -> None:
    """Pages name the static files as they are, so that no test needs `collectstatic`."""
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = {**settings.STORAGES, "staticfiles": plain}


@pytest.fixture
def people(db: None) -> People:
    alice, bob, charlie = (User.objects.create_user(name) for name in ("alice", "bob", "charlie"))
    staff = User.objects.create_user("staff", is_staff=True)
    team = create_team(slug="kernels", name="Kernel team", owner=alice)
    add_member(team=team, user=bob)
    return People(alice, bob, charlie, staff, team, create_team(slug="others", name="Other team", owner=charlie))


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
