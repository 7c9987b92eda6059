"""Bytes that were submitted before are recognised, also when two requests come at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection

from portal.catalog.models import Environment, Task
from portal.runs.models import Run
from portal.runs.services import DuplicateRun
from portal.systems.services import create_system
from tests.conftest import People, Submit
from tests.portal.factories import SOURCE
from tests.portal.pages.conftest import Finish, finish  # noqa: F401  a fixture


def test_the_latest_run_of_the_same_bytes_is_named(submit: Submit, finish: Finish) -> None:  # noqa: F811
    finish(submit())
    latest = submit()
    with pytest.raises(DuplicateRun, match="The same bytes were submitted for this task and system at") as refusal:
        submit(allow_duplicate=False)
    assert refusal.value.earlier == latest
    assert Run.objects.count() == 2


def test_other_bytes_tasks_systems_and_environments_are_none(
    submit: Submit, people: People, gpu: Environment, task: Task
) -> None:
    submit()
    others = {
        "source": SOURCE + "\n",
        "task": Task.objects.exclude(pk=task.pk).first(),
        "system": create_system(slug="second", name="Second", team=people.team),
        "environment": gpu,
    }
    for name, value in others.items():
        assert submit(allow_duplicate=False, **{name: value})


def test_a_run_that_one_may_not_see_is_not_told(submit: Submit, people: People) -> None:
    submit(user=people.bob, visibility="private")
    assert submit(allow_duplicate=False)
    with pytest.raises(DuplicateRun):
        submit(user=people.bob, allow_duplicate=False)


@pytest.mark.django_db(transaction=True)
def test_of_four_clicks_at_once_one_submits(submit: Submit) -> None:
    def attempt(_: int) -> bool:
        try:
            submit(allow_duplicate=False)
        except DuplicateRun:
            return False
        finally:
            connection.close()
        return True

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(attempt, range(4))) == [False, False, False, True]
    assert Run.objects.count() == 1
