from __future__ import annotations

import re

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from portal.catalog.models import Environment
from portal.runs.models import Run
from tests.conftest import Submit
from tests.portal.factories import judge_timed, reject
from tests.portal.pages.conftest import Finish, Visit
from verifier.verdict import FailureCode


def list_shown(client: Client, query: str = "") -> list[Run]:
    response = client.get(f"/runs/{query}")
    assert response.status_code == 200
    return list(response.context["page"].object_list)


def test_it_lists_the_newest_first(visit: Visit, submit: Submit) -> None:
    older, newer = submit(), submit()
    assert list_shown(visit("alice")) == [newer, older]


@pytest.mark.parametrize(
    ("role", "visibilities"),
    [
        ("anonymous", ["public"]),
        ("charlie", ["public"]),
        ("bob", ["public", "team"]),
        ("alice", ["public", "team", "private"]),
        ("staff", ["public", "team", "private"]),
    ],
)
def test_it_lists_what_the_visitor_may_see(visit: Visit, submit: Submit, role: str, visibilities: list[str]) -> None:
    for visibility in ("private", "team", "public"):
        submit(visibility=visibility)
    assert [run.visibility for run in list_shown(visit(role))] == visibilities


def test_it_shows_the_failure_code(client: Client, submit: Submit, finish: Finish) -> None:
    finish(submit(visibility="public"), reject, FailureCode.STALE_CONSTANT)
    page = client.get("/runs/").content.decode()
    assert "Rejected" in page
    assert "<code>STALE_CONSTANT</code>" in page


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("?outcome=rejected", 1),
        ("?outcome=accepted", 1),
        ("?state=queued", 1),
        ("?task=l1-09", 3),
        ("?task=l1-01", 0),
        ("?system=hand-written&state=finished", 2),
        ("?environment=cpu-interpreter", 3),
        ("?environment=h200", 0),
    ],
)
def test_it_narrows(client: Client, submit: Submit, finish: Finish, query: str, count: int) -> None:
    finish(submit(visibility="public"))
    finish(submit(visibility="public"), reject)
    submit(visibility="public")
    assert len(list_shown(client, query)) == count


@pytest.mark.parametrize("query", ["?task=nothing", "?state=<script>", "?page=99", "?page=x", "?system=private-one"])
def test_a_choice_that_does_not_exist_narrows_nothing(client: Client, submit: Submit, query: str) -> None:
    submit(visibility="public")
    response = client.get(f"/runs/{query}")
    assert len(response.context["page"].object_list) == 1
    assert "<script>alert" not in response.content.decode()
    assert '"?state=<script>' not in response.content.decode()


def test_the_names_of_systems_that_one_may_not_see_are_not_offered(visit: Visit, submit: Submit) -> None:
    submit(visibility="private")
    assert "Hand-written" not in visit("charlie").get("/runs/").content.decode()


def test_an_environment_with_a_gpu_says_which_speed_counts(
    client: Client, submit: Submit, finish: Finish, gpu: Environment
) -> None:
    runs = [submit(environment=gpu, visibility="public") for _ in range(3)]
    finish(runs[0], judge_timed)
    finish(runs[1], judge_timed, outcome="rejected", failures=["PREC_TF32"], speedup=None)
    page = client.get("/runs/?environment=h200").content.decode()
    speeds = re.findall(r'data-label="Speedup">(.*?)</td>', page)
    assert speeds == ["\u2013", '<span class="unknown">14.75x, not counted</span>', "14.75x"]
    assert "Accepted, no target yet" in page


def test_pages_keep_the_filter(client: Client, submit: Submit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("portal.runs.views.RUNS_PER_PAGE", 2)
    for _ in range(3):
        submit(visibility="public")
    page = client.get("/runs/?task=l1-09&page=1").content.decode()
    assert 'href="?task=l1-09&amp;page=2"' in page
    assert len(list_shown(client, "?task=l1-09&page=2")) == 1


def test_the_number_of_queries_is_fixed(
    client: Client, submit: Submit, finish: Finish, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for _ in range(4):
        finish(submit(visibility="public"))
    with django_assert_max_num_queries(5):
        client.get("/runs/")


def test_it_lists_the_runs_of_a_figure(client: Client, visit: Visit, submit: Submit, finish: Finish) -> None:
    fast = {"target": 2.0, "measured_speedup": 9.0}
    tf32 = finish(submit(visibility="public"), reject, FailureCode.PREC_TF32, **fast)
    slow = finish(submit(visibility="public"), reject, FailureCode.PREC_DOWNCAST, target=2.0, measured_speedup=1.5)
    stale = finish(submit(visibility="public"), reject, FailureCode.STALE_CONSTANT)
    private = finish(submit(visibility="private"), reject, FailureCode.PREC_TF32, **fast)
    assert list_shown(client, "?mode=precision_loss") == [slow, tf32]
    assert list_shown(client, "?fast=on") == [tf32]
    assert list_shown(client, "?level=L1&family=&dtype=fp32") == [stale, slow, tf32]
    assert list_shown(client, "?level=L2") == []
    assert list_shown(client, "?as_of=2020-01-01") == []
    alice = visit("alice")
    assert list_shown(alice, "?fast=on") == [private, tf32]
    assert list_shown(alice, "?fast=on&counted=on") == [tf32]


def test_it_says_which_figure_it_belongs_to_and_keeps_that(client: Client, submit: Submit) -> None:
    submit(visibility="public")
    page = client.get("/runs/?level=L1&counted=on&fast=on&as_of=2030-01-02").content.decode()
    assert "L1, judged by 2030-01-02 UTC, rejected at or above the target, counted by the board" in page
    for name, value in (("level", "L1"), ("counted", "on"), ("fast", "on"), ("as_of", "2030-01-02")):
        assert re.search(rf'<input type="hidden" name="{name}" value="{value}"', page), name
    assert "Only runs of a figure" not in client.get("/runs/?state=queued").content.decode()
