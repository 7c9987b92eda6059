from __future__ import annotations

from pathlib import Path

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from portal.catalog.models import Certificate, Environment, Task
from tests.conftest import Submit
from tests.portal.pages.conftest import Finish, Visit
from verifier.task import load_task


def read(client: Client, task: Task) -> str:
    response = client.get(f"/tasks/{task.slug}/")
    assert response.status_code == 200
    return response.content.decode()


def test_it_shows_the_contract(client: Client, task: Task) -> None:
    page = read(client, task)
    assert task.title in page
    assert task.tolerance["why"] in page
    assert "8,192" in page
    assert 'id="reference-1"' in page


def test_hidden_distributions_are_counted_and_not_named(client: Client, task: Task) -> None:
    page = read(client, task)
    hidden = [item.name for item in load_task(task.id).specification.distributions if not item.visible]
    assert f"{len(hidden)} more are hidden" in page
    described = page.split("Input distributions")[1].split("Floor")[0]
    assert not [name for name in hidden if name in described]


def test_the_certified_solution_is_nowhere(client: Client, task: Task) -> None:
    page = read(client, task)
    certified = (Path(load_task(task.id).path) / "certified.py").read_text()
    kernels = [line.strip() for line in certified.splitlines() if line.startswith("def ")]
    assert kernels
    assert not [line for line in kernels if line in page and line not in task.reference_source]


def test_a_target_belongs_to_its_environment(client: Client, task: Task) -> None:
    page = read(client, task)
    assert "not certified yet" in page
    assert "not timed here" in page
    Certificate.objects.create(
        task=task, environment=Environment.objects.get(slug="h200"), target=24.5, body={}, digest="0" * 64
    )
    assert "24.50x" in read(client, task)


def test_markup_in_the_instruction_is_harmless(client: Client, task: Task) -> None:
    task.instruction = "# Title\n\n<script>alert(1)</script>\n\n[link](javascript:alert(2))\n"
    task.save()
    page = read(client, task)
    assert "<h2>Title</h2>" in page
    assert "<script>alert" not in page
    assert 'href="javascript' not in page


@pytest.mark.parametrize(("role", "seen"), [("anonymous", False), ("charlie", False), ("alice", True), ("staff", True)])
def test_it_lists_the_runs_that_the_visitor_may_see(visit: Visit, submit: Submit, *, role: str, seen: bool) -> None:
    run = submit(visibility="private")
    assert (str(run.public_id) in read(visit(role), run.task)) is seen


def test_a_task_that_is_gone_takes_no_submission(client: Client, task: Task) -> None:
    Task.objects.filter(pk=task.pk).update(active=False)
    page = read(client, task)
    assert "no longer part of the benchmark" in page
    assert f"/submit/?task={task.id}" not in page


@pytest.mark.django_db
def test_an_unknown_task_is_not_found(client: Client) -> None:
    assert client.get("/tasks/no-such-task/").status_code == 404


def test_the_number_of_queries_is_fixed(
    client: Client, submit: Submit, finish: Finish, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for _ in range(3):
        task = finish(submit(visibility="public")).task
    with django_assert_max_num_queries(4):
        read(client, task)


def test_a_task_without_a_target_says_why(client: Client, task: Task) -> None:
    Certificate.objects.create(
        task=task,
        environment=Environment.objects.get(slug="h200"),
        target=None,
        body={"reason": "the certified solution is 1.010 times as fast"},
        digest="0" * 64,
    )
    page = client.get(f"/tasks/{task.slug}/").content.decode()
    assert "none: the certified solution is 1.010 times as fast" in page
