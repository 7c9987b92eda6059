from __future__ import annotations

from base64 import b64encode
from itertools import product
from typing import Any
from urllib.parse import quote

import pytest
from django.test import Client
from pytest_django import Settings

from portal.review.models import TrailEvent
from portal.runs.models import Run
from tests.conftest import People, Submit
from tests.portal.api.conftest import Act, read
from tests.portal.factories import SOURCE, reject
from tests.portal.pages.conftest import Finish, finish  # noqa: F401  a fixture


def test_tasks_are_listed_and_found_by_both_names(act: Act, catalog: None) -> None:
    nobody = act("anonymous")
    page = read(nobody.get("/tasks/?page_size=3"))
    assert [len(page["results"]), page["previous"]] == [3, None]
    following = nobody.get(page["next"].removeprefix("http://testserver/api/v1"))
    assert page["results"][-1]["id"] < read(following)["results"][0]["id"]
    assert read(nobody.get("/tasks/l1-09/")) == read(nobody.get("/tasks/sparsemax-rows/"))
    body = read(nobody.get("/tasks/l1-09/"))
    assert "class Model" in body["reference_source"]
    assert "certified" not in str(body["targets"])


def test_nothing_hidden_is_in_a_task(act: Act, catalog: None) -> None:
    body = read(act("anonymous").get("/tasks/l1-09/"))
    assert all(isinstance(row, dict) for row in body["distributions"])
    assert body["hidden_distributions"] >= 1
    assert not {"certificate", "oracle", "hidden"} & set(body)


def test_environments_say_whether_they_are_served(act: Act, catalog: None) -> None:
    rows = {row["slug"]: row["served"] for row in read(act("anonymous").get("/environments/"))["results"]}
    assert rows["cpu-interpreter"] is True
    assert rows["l40s"] is False
    assert read(act("anonymous").get("/environments/l40s/"))["official"] is True


def test_a_system_without_a_visible_run_is_its_teams_alone(act: Act, submit: Submit) -> None:
    run = submit(visibility="team")
    assert act("anonymous").get("/systems/hand-written/").status_code == 404
    assert read(act("charlie").get("/systems/"))["results"] == []
    assert read(act("bob").get("/systems/hand-written/"))["team"] == "kernels"
    Run.objects.filter(pk=run.pk).update(visibility="public")
    assert act("anonymous").get("/systems/hand-written/").status_code == 200


@pytest.mark.parametrize("part", ["", "verdict/", "source/"])
@pytest.mark.parametrize(
    ("visibility", "readers"),
    [
        ("private", {"alice", "staff", "admin"}),
        ("team", {"alice", "bob", "staff", "admin"}),
    ],
)
def test_a_foreign_run_is_not_there(  # noqa: PLR0913, PLR0917  fixtures
    act: Act,
    submit: Submit,
    finish: Finish,  # noqa: F811
    visibility: str,
    readers: set[str],
    part: str,
) -> None:
    run = finish(submit(visibility=visibility))
    found = {
        role
        for role in ("anonymous", "alice", "bob", "charlie", "staff", "admin")
        if act(role).get(f"/runs/{run}/{part}").status_code == 200
    }
    assert found == readers


def test_a_run_is_shown_with_its_figures(act: Act, submit: Submit, finish: Finish) -> None:  # noqa: F811
    waiting, other = submit(visibility="public"), submit(visibility="public")
    assert read(act("anonymous").get(f"/runs/{other}/"))["ahead"] == 1
    run = finish(waiting, reject)
    body = read(act("anonymous").get(f"/runs/{run}/"))
    assert (body["state"], body["ahead"], body["page"]) == ("finished", 0, f"/runs/{run}/")
    assert body["verdict"]["outcome"] == "rejected"
    assert body["verdict"]["primary_failure"] == "STALE_CONSTANT"
    whole = read(act("anonymous").get(f"/runs/{run}/verdict/"))
    assert {gate["gate"] for gate in whole["gates"]} >= {"intake", "policy"}


def test_a_verdict_that_is_not_there_yet_is_404(act: Act, run: Run) -> None:
    assert "no verdict yet" in read(act().get(f"/runs/{run}/verdict/"))["detail"]


def test_a_source_is_text_and_its_reading_by_staff_is_recorded(act: Act, submit: Submit, people: People) -> None:
    run = submit(visibility="public")
    assert act("charlie").get(f"/runs/{run}/source/").status_code == 404
    response = act("staff").get(f"/runs/{run}/source/")
    assert response.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert response.content.decode() == SOURCE
    assert TrailEvent.objects.about(run).filter(action="source.read", actor=people.staff).exists()


@pytest.mark.parametrize(
    ("query", "count"),
    [
        *(("", 3), ("?state=queued", 2), ("?outcome=rejected", 1), ("?failure=STALE_CONSTANT", 1)),
        *(
            ("?task=sparsemax-rows", 3),
            ("?task=l1-01", 0),
            ("?mine=true", 3),
            ("?system=other", 0),
            ("?team=kernels", 3),
        ),
    ],
)
def test_runs_are_narrowed(act: Act, submit: Submit, finish: Finish, query: str, count: int) -> None:  # noqa: F811
    finish(submit(), reject)
    submit()
    submit()
    assert len(read(act().get(f"/runs/{query}"))["results"]) == count


@pytest.mark.parametrize("query", ["?state=lost", "?outcome=x", "?failure=NO", "?page_size=0", "?cursor=x"])
def test_a_filter_that_is_not_understood_is_refused_or_ignored_as_documented(act: Act, run: Run, query: str) -> None:
    response = act().get(f"/runs/{query}")
    assert response.status_code == (
        200 if "page_size" in query else 400 if "=" in query and "cursor" not in query else 404
    )


POSITIONS = [
    *("abc", "\0", "NaN", "9" * 40, "2026-13-45"),
    *("0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"),
]


# Outside a transaction, which PostgreSQL ends at the first statement that it refuses.
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("path", ["tasks", "environments", "systems", "runs", "campaigns"])
def test_a_forged_cursor_is_refused_everywhere(act: Act, submit: Submit, path: str) -> None:
    submit(visibility="public")
    alice = act()
    for start, position in product(["p=", "r=1&p=", "o=99999999999&p="], POSITIONS):
        cursor = quote(b64encode((start + quote(position)).encode()))
        response = alice.get(f"/{path}/?cursor={cursor}")
        # Any text is a position among names, and so is any number among systems.
        fits = path in ("tasks", "environments") or (path == "systems" and position.isdigit())
        taken = fits and response.status_code == 200
        assert taken or response.status_code == 404, position
        assert taken or response["Content-Type"] == "application/problem+json"


def test_what_has_not_changed_is_not_sent_again(act: Act, run: Run) -> None:
    program = act()
    first = program.get(f"/runs/{run}/")
    tag = first.headers["ETag"]
    again = program.get(f"/runs/{run}/", **{"If-None-Match": tag})
    assert (again.status_code, again.content) == (304, b"")
    Run.objects.filter(pk=run.pk).update(visibility="public")
    assert program.get(f"/runs/{run}/", **{"If-None-Match": tag}).status_code == 200


def test_me(act: Act, submit: Submit) -> None:
    submit()
    body = read(act("bob", "read").get("/me/"))
    assert (body["username"], body["token"]["scope"]) == ("bob", "read")
    team = body["teams"][0]
    assert (team["team"], team["role"], team["systems"]) == ("kernels", "member", ["hand-written"])
    assert (team["quota"]["used"], team["quota"]["left"]) == (1, 399)


@pytest.mark.parametrize("path", ["/me/", "/nothing/", "/runs/x/", "/tasks/nothing/"])
def test_every_error_is_a_problem(act: Act, catalog: None, path: str) -> None:
    response = act("anonymous").get(path)
    assert response.headers["Content-Type"] == "application/problem+json"
    problem = read(response)
    assert problem["status"] == response.status_code == (401 if path == "/me/" else 404)
    assert problem["title"]
    assert problem["detail"]


@pytest.mark.parametrize("header", ["Bearer", "Bearer kq_wrong", "Bearer a b", "bearer \xe9"])
def test_a_bad_token_is_told_what_to_do(client: Client, db: None, header: str) -> None:
    response = client.get("/api/v1/runs/", headers={"Authorization": header})
    assert response.status_code == 401
    assert response.headers["WWW-Authenticate"].startswith("Bearer")
    assert "token" in response.json()["detail"].lower() or "Authorization" in response.json()["detail"]


def test_whoever_asks_too_often_is_told_when_to_come_back(act: Act, catalog: None, settings: Settings) -> None:
    from portal.api.limits import VisitorLimit  # noqa: PLC0415

    rates: dict[str, Any] = {"visitor": "2/min"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(VisitorLimit, "THROTTLE_RATES", rates)
        nobody = act("anonymous")
        statuses = [nobody.get("/tasks/").status_code for _ in range(2)]
        refused = nobody.get("/tasks/")
    assert statuses == [200, 200]
    assert refused.status_code == 429
    assert 0 < int(refused.headers["Retry-After"]) <= 60
    assert read(refused)["status"] == 429


def test_a_reviewer_without_a_second_factor_is_refused(act: Act, people: People) -> None:
    program = act("staff")
    people.staff.authenticator_set.all().delete()  # type: ignore[attr-defined]
    assert "second factor" in read(program.get("/runs/"))["detail"]


def test_the_documents_are_under_the_strict_policy(client: Client, db: None) -> None:
    response = client.get("/api/v1/docs/")
    assert "unsafe" not in response.headers["Content-Security-Policy"]
    assert client.get("/api/v1/schema/").json()["openapi"].startswith("3.1")
