from __future__ import annotations

from typing import Any

import pytest

from portal.api.models import StoredAnswer
from portal.runs.models import Run
from portal.runs.uploads import SOURCE_CAP
from tests.conftest import People, Submit
from tests.portal.api.conftest import Act, read
from tests.portal.factories import SOURCE
from tests.portal.pages.conftest import Finish, finish  # noqa: F401  a fixture

Body = dict[str, Any]


def test_a_solution_is_submitted(act: Act, submission: Body, people: People) -> None:
    response = act().post("/runs/", submission)
    assert response.status_code == 201
    run = Run.objects.get()
    assert (run.submitted_by, run.source.text, run.visibility) == (people.alice, SOURCE, "private")
    assert response.headers["Location"] == f"/api/v1/runs/{run}/"
    assert read(response)["state"] == "queued"


@pytest.mark.parametrize(
    ("given", "field"),
    [
        *(({"task": "l9-99"}, "task"), ({"environment": "mine"}, "environment"), ({"system": "theirs"}, "system")),
        *(({"source": ""}, "source"), ({"source": "\0"}, "source"), ({"source": "\ud800"}, "source")),
        *(({"source": "#" * (SOURCE_CAP + 1)}, "source"), ({"visibility": "all"}, "visibility")),
        ({"environment": "l40s"}, "environment"),
    ],
)
def test_a_bad_one_is_refused_with_the_field(act: Act, submission: Body, given: Body, field: str) -> None:
    response = act().post("/runs/", submission | given)
    assert response.status_code == 400
    assert field in read(response)["errors"]
    assert not Run.objects.exists()


@pytest.mark.parametrize("body", ["{", "[]", '"x"', b"\xff", "null"])
def test_what_is_no_submission_is_refused(act: Act, submission: Body, body: str | bytes) -> None:
    response = act().post("/runs/", body)
    assert response.status_code == 400
    assert read(response)["title"] == "Bad Request"


@pytest.mark.parametrize(("role", "scope", "status"), [("alice", "read", 403), ("charlie", "submit", 400)])
def test_whoever_may_not_submit_does_not(act: Act, submission: Body, role: str, scope: str, status: int) -> None:
    assert act(role, scope).post("/runs/", submission).status_code == status
    assert act("anonymous").post("/runs/", submission).status_code == 401
    assert not Run.objects.exists()


def test_the_same_request_twice_submits_once(act: Act, submission: Body) -> None:
    program = act()
    first = program.post("/runs/", submission, Idempotency_Key="a-1")
    second = program.post("/runs/", submission, Idempotency_Key="a-1")
    assert (first.status_code, second.status_code) == (201, 201)
    assert read(first) == read(second)
    assert second.headers["Idempotency-Replayed"] == "true"
    assert Run.objects.count() == 1


def test_the_same_bytes_again_are_told_with_the_earlier_run(act: Act, submission: Body) -> None:
    program = act()
    earlier = read(program.post("/runs/", submission))
    refused = program.post("/runs/", submission, Idempotency_Key="a-2")
    problem = read(refused)
    assert (refused.status_code, refused.headers["Content-Type"]) == (409, "application/problem+json")
    assert "The same bytes were submitted for this task and system" in problem["detail"]
    assert problem["earlier_run"] == f"/api/v1/runs/{earlier['id']}/"
    assert read(program.get(problem["earlier_run"].removeprefix("/api/v1")))["id"] == earlier["id"]
    assert problem["earlier_page"] == earlier["page"]
    assert Run.objects.count() == 1
    answer = program.post("/runs/", submission | {"allow_duplicate": True}, Idempotency_Key="a-2")
    assert answer.status_code == 201
    assert Run.objects.count() == 2


def test_what_was_cancelled_may_be_submitted_again(act: Act, submission: Body) -> None:
    run = read(act().post("/runs/", submission))
    act().post(f"/runs/{run['id']}/cancel/")
    assert act().post("/runs/", submission).status_code == 201


def test_a_run_has_how_long_its_agent_worked(act: Act, submission: Body) -> None:
    assert read(act().post("/runs/", submission | {"wall_clock_seconds": 90}))["wall_clock_seconds"] == 90
    refused = act().post("/runs/", submission | {"wall_clock_seconds": 0})
    assert "wall_clock_seconds" in read(refused)["errors"]


def test_a_key_belongs_to_one_body_and_one_person(act: Act, submission: Body) -> None:
    act().post("/runs/", submission, Idempotency_Key="a-1")
    conflict = act().post("/runs/", submission | {"source": SOURCE + "#"}, Idempotency_Key="a-1")
    assert (conflict.status_code, read(conflict)["status"]) == (409, 409)
    assert act("bob").post("/runs/", submission, Idempotency_Key="a-1").status_code == 201
    assert Run.objects.count() == 2


def test_an_error_is_not_kept(act: Act, submission: Body) -> None:
    program = act()
    assert program.post("/runs/", submission | {"task": "none"}, Idempotency_Key="a-1").status_code == 400
    assert not StoredAnswer.objects.exists()
    assert program.post("/runs/", submission, Idempotency_Key="a-1").status_code == 201
    assert program.post("/runs/", submission, Idempotency_Key="a b").status_code == 400


def test_a_spent_quota_says_when_to_come_back(act: Act, submission: Body, people: People) -> None:
    people.team.daily_runs = 1
    people.team.save()
    act().post("/runs/", submission)
    refused = act().post("/runs/", submission)
    assert refused.status_code == 429
    assert 86_000 < int(refused.headers["Retry-After"]) <= 86_400
    assert "next slot opens at" in read(refused)["detail"]


def test_a_run_is_cancelled_once(act: Act, run: Run) -> None:
    assert act("charlie").post(f"/runs/{run}/cancel/").status_code == 404
    assert act("anonymous").post(f"/runs/{run}/cancel/").status_code == 401
    assert act("alice", "read").post(f"/runs/{run}/cancel/").status_code == 403
    assert read(act().post(f"/runs/{run}/cancel/"))["state"] == "cancelled"
    assert act().post(f"/runs/{run}/cancel/").status_code == 409


def test_a_member_changes_who_sees_a_run(act: Act, submit: Submit, finish: Finish) -> None:  # noqa: F811
    run = finish(submit(visibility="team"))
    change = {"visibility": "public", "release_source": True}
    assert act("charlie").patch(f"/runs/{run}/", change).status_code == 404
    assert read(act("bob").patch(f"/runs/{run}/", change))["visibility"] == "public"
    assert act("anonymous").get(f"/runs/{run}/source/").status_code == 200
    assert act("charlie").patch(f"/runs/{run}/", change).status_code == 404


def test_a_body_that_is_too_large_is_refused_as_a_problem(act: Act, submission: Body) -> None:
    response = act().post("/runs/", "x" * (1024 * 1024 + 1))
    assert response.status_code == 413
    assert response.headers["Content-Type"] == "application/problem+json"
