from __future__ import annotations

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from portal.catalog.models import Task
from tests.conftest import Submit
from tests.portal.pages.conftest import Visit


def test_it_lists_the_tasks(client: Client, task: Task) -> None:
    page = client.get("/tasks/").content.decode()
    assert task.title in page
    assert f"/tasks/{task.slug}/" in page


@pytest.mark.django_db
def test_without_tasks_it_says_how_to_load_them(client: Client) -> None:
    assert "manage.py load_tasks" in client.get("/tasks/").content.decode()


def test_a_task_that_is_gone_is_not_listed(client: Client, task: Task) -> None:
    Task.objects.filter(pk=task.pk).update(active=False)
    assert task.title not in client.get("/tasks/").content.decode()


@pytest.mark.parametrize(("role", "count"), [("anonymous", 1), ("charlie", 1), ("bob", 2), ("alice", 3), ("staff", 3)])
def test_it_counts_only_runs_that_the_visitor_may_see(visit: Visit, submit: Submit, role: str, count: int) -> None:
    for visibility in ("public", "team", "private"):
        submit(visibility=visibility)
    tasks = visit(role).get("/tasks/").context["tasks"]
    assert {task.id: runs for task, runs in tasks}["l1-09"] == count


def test_the_number_of_queries_is_fixed(
    client: Client, submit: Submit, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    submit(visibility="public")
    with django_assert_max_num_queries(2):
        client.get("/tasks/")
