from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from portal.catalog.models import Certificate, Environment, Task
from portal.catalog.views import RUNS_PER_PAGE
from tests.conftest import Submit
from tests.portal.factories import judge_timed, reject
from tests.portal.pages.conftest import Finish, Visit
from verifier.task import load_task
from verifier.verdict import FailureCode


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


def replace_certificates(**given: Any) -> None:
    """Let there be this certificate and no other, whatever was measured by now."""
    Certificate.objects.all().delete()
    Certificate.objects.create(**given)


def test_a_target_belongs_to_its_environment(client: Client, task: Task) -> None:
    Certificate.objects.all().delete()
    page = read(client, task)
    assert "not certified yet" in page
    assert "not timed here" in page
    replace_certificates(
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
    # The task, its certificates, environments, results, the number of runs, and one page of them.
    with django_assert_max_num_queries(6):
        read(client, task)


def test_a_task_without_a_target_says_why(client: Client, task: Task) -> None:
    replace_certificates(
        task=task,
        environment=Environment.objects.get(slug="h200"),
        target=None,
        body={"reason": "the certified solution is 1.010 times as fast"},
        digest="0" * 64,
    )
    page = client.get(f"/tasks/{task.slug}/").content.decode()
    assert "none: the certified solution is 1.010 times as fast" in page


def cut_results(page: str) -> str:
    """Return the part of a page that tells how runs did, on one line."""
    return re.sub(r"\s+", " ", page.split('id="results"')[1].split("</section>", 1)[0])


def test_results_are_counted_by_speedup_and_outcome(
    client: Client, task: Task, submit: Submit, finish: Finish, gpu: Environment
) -> None:
    replace_certificates(
        task=task, environment=gpu, target=12.0, digest="0" * 64,
        body={"floor_ms": 0.05, "sessions": [{"eager_ms": 9.0, "compiled_ms": 2.0}, {"eager_ms": 2.0, "compiled_ms": 1.0}]},
    )  # fmt: skip
    public = {"visibility": "public", "environment": gpu}
    finish(submit(**public), judge_timed)
    finish(submit(**public), reject, FailureCode.PREC_TF32, measured_speedup=14.9)
    finish(submit(**public), reject, FailureCode.ART_RUNTIME_ERROR)
    finish(submit(environment=gpu), judge_timed)
    finish(submit(visibility="public"))
    results = cut_results(read(client, task))
    assert "3 public runs of this task in NVIDIA H200" in results
    assert 'data-chart="distribution-h200"' in results
    row = results.split('id="results-h200"')[1].split("<table>")[1].split("12x to 15x")[1].split("</tr>")[0]
    assert "target 12.00x" in row
    assert re.findall(r">(\d+)<", row) == ["1", "1"]
    assert "20.00x, which no solution can pass" in results
    assert re.findall(r">(\d+)<", results.split("Not timed")[1].split("</tr>")[0]) == ["0", "1"]
    assert 'data-chart="distribution-cpu-interpreter"' not in results
    assert "1 public run of this task in" in results
    assert "Speed is not measured there" in results


def test_a_total_of_the_results_leads_to_its_runs(client: Client, task: Task, submit: Submit, finish: Finish) -> None:
    for _ in range(2):
        finish(submit(visibility="public"), reject, FailureCode.CORR_VALUE)
    finish(submit(visibility="private"), reject, FailureCode.CORR_VALUE)
    address = re.findall(r'href="([^"]*outcome=rejected)"', cut_results(read(client, task)))[0]
    assert "Page 1 of 1, 2 runs" in client.get(unescape(address)).content.decode()


def test_without_a_public_verdict_it_says_what_to_do(
    client: Client, task: Task, submit: Submit, finish: Finish
) -> None:
    finish(submit(visibility="private"))
    results = cut_results(read(client, task))
    assert "No public run of this task has been judged yet" in results
    assert f"/submit/?task={task.id}" in results
    assert "plotly" not in read(client, task)


def test_all_runs_are_there_page_by_page(client: Client, task: Task, submit: Submit) -> None:
    runs = [str(submit(visibility="public").public_id) for _ in range(RUNS_PER_PAGE + 1)]
    first, second = (client.get(f"/tasks/{task.slug}/?page={number}").content.decode() for number in (1, 2))
    assert [run for run in runs if f"/runs/{run}/" in first] == runs[1:]
    assert [run for run in runs if f"/runs/{run}/" in second] == runs[:1]
    assert 'rel="next" href="?page=2#runs"' in first
    assert 'rel="prev" href="?page=1#runs"' in second
    assert client.get(f"/tasks/{task.slug}/?page=nonsense").status_code == 200
