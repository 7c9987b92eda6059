from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from portal.accounts.models import ApiToken
from portal.campaigns.models import Campaign
from portal.runs.models import Run
from portal.runs.uploads import SOURCE_CAP
from portal.systems.models import System
from tests.conftest import People, Submit
from tests.portal.api.conftest import Act, Program, read
from tests.portal.campaigns.conftest import Put, draft, put  # noqa: F401  fixtures
from tests.portal.factories import SOURCE

NOWHERE = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
def path(draft: Campaign) -> str:  # noqa: F811
    return f"/campaigns/{draft}/"


def send(program: Program, path: str, name: str, source: str = "") -> Any:  # noqa: ANN401  an answer
    return program.post(f"{path}files/", {"name": name, "source": source or f"{SOURCE}# {name}\n"})


def test_a_folder_becomes_runs(act: Act, system: System, environment: object) -> None:
    program = act()
    body = {"system": system.slug, "environment": "cpu-interpreter", "title": "Folder", "visibility": "team"}
    created = program.post("/campaigns/", body)
    assert created.status_code == 201
    path = created.headers["Location"].removeprefix("/api/v1")
    for name in ("l1-09/1.py", "l1-09/2.py", "Lösungen/l2-01_rep3.py"):
        assert send(program, path, name).status_code == 201
    preview = read(program.get(f"{path}files/"))
    places = [(file["task"], file["repetition"], file["problem"]) for file in preview["files"]]
    assert places == [("l1-09", 1, ""), ("l1-09", 2, ""), ("l2-01", 3, "")]
    confirmed = program.post(f"{path}confirm/", {"digest": preview["digest"]})
    assert confirmed.status_code == 200
    campaign = read(confirmed)
    assert (campaign["state"], campaign["runs"], campaign["states"]) == ("submitted", 3, {"queued": 3})
    listed = read(program.get(f"/runs/?campaign={campaign['id']}"))["results"]
    assert {(run["campaign"], run["visibility"]) for run in listed} == {(campaign["id"], "team")}
    assert read(program.get("/campaigns/"))["results"][0]["title"] == "Folder"


def test_files_sent_again_after_a_lost_connection_are_recognised(act: Act, path: str) -> None:
    assert read(send(act(), path, "l1-09/1.py"))["outcome"] == "added"
    again = send(act(), path, "l1-09/1.py")
    assert (again.status_code, read(again)["outcome"]) == (200, "recognised")
    changed = send(act(), path, "l1-09/1.py", "x = 1\n")
    assert (changed.status_code, read(changed)["outcome"]) == (200, "replaced")
    assert len(read(act().get(f"{path}files/"))["files"]) == 1


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"source": "#" * 300_000}, "source: The file has 300,000 bytes"),
        ({"source": "\0"}, "source: Null characters are not allowed"),
        ({"source": "\ud800"}, "source: "),
        ({"name": "all.zip"}, "name: Archives are not taken. Unpack it"),
        ({"name": "notes.md"}, "name: This is not a Python file by its name. Only files that end in .py"),
        ({"name": "../l1-09.py"}, "name: The name of the file cannot be kept"),
        ({"name": ""}, "name: This field may not be blank"),
    ],
)
def test_a_refused_file_changes_nothing(act: Act, path: str, given: dict[str, str], words: str) -> None:
    response = act().post(f"{path}files/", {"name": "l1-09.py", "source": "x = 1"} | given)
    assert response.status_code == 400
    assert words in read(response)["detail"]
    assert read(act().get(f"{path}files/"))["files"] == []


def test_a_file_brings_how_long_its_agent_worked(act: Act, path: str) -> None:
    body = {"name": "l1-09.py", "source": "x = 1", "wall_clock_seconds": 600}
    assert read(act().post(f"{path}files/", body))["wall_clock_seconds"] == 600
    assert read(act().get(f"{path}files/"))["files"][0]["wall_clock_seconds"] == 600
    assert act().post(f"{path}files/", body | {"wall_clock_seconds": -1}).status_code == 400


def test_a_body_over_the_cap_is_refused_before_it_is_read(act: Act, path: str) -> None:
    response = send(act(), path, "l1-09.py", "#" * (4 * SOURCE_CAP + 1))
    assert (response.status_code, response.headers["Content-Type"]) == (413, "application/problem+json")


def test_a_token_revoked_in_the_middle_leaves_the_draft_for_another(act: Act, path: str) -> None:
    program = act()
    assert send(program, path, "l1-09/1.py").status_code == 201
    ApiToken.objects.update(revoked_at=timezone.now())
    for refused in (send(program, path, "l1-09/2.py"), program.post(f"{path}confirm/")):
        assert refused.status_code == 401
        assert "The token was revoked at" in read(refused)["detail"]
    other = act()
    assert read(send(other, path, "l1-09/1.py"))["outcome"] == "recognised"
    assert send(other, path, "l1-09/2.py").status_code == 201
    assert read(other.post(f"{path}confirm/"))["runs"] == 2


def test_confirming_twice_submits_once(act: Act, path: str) -> None:
    program = act()
    send(program, path, "l1-09.py")
    first = program.post(f"{path}confirm/", Idempotency_Key="c-1")
    replayed = program.post(f"{path}confirm/", Idempotency_Key="c-1")
    assert (first.status_code, replayed.status_code, read(first)) == (200, 200, read(replayed))
    late = program.post(f"{path}confirm/")
    assert late.status_code == 409
    assert "was submitted at" in read(late)["detail"]
    for refused in (send(program, path, "l1-09/2.py"), program.post(f"{path}discard/")):
        assert refused.status_code == 409
    assert Run.objects.count() == 1


def test_a_draft_that_changed_is_not_confirmed(act: Act, path: str) -> None:
    program = act()
    send(program, path, "l1-09/1.py")
    seen = read(program.get(f"{path}files/"))["digest"]
    send(program, path, "l1-09/2.py")
    refused = program.post(f"{path}confirm/", {"digest": seen})
    assert (refused.status_code, Run.objects.count()) == (409, 0)
    assert "has changed since you looked" in read(refused)["detail"]


def test_what_is_not_placed_is_told_and_can_be_removed(act: Act, path: str) -> None:
    program = act()
    send(program, path, "l1-09.py")
    number = read(send(program, path, "helpers.py"))["number"]
    refused = program.post(f"{path}confirm/")
    assert refused.status_code == 400
    assert "helpers.py: No part of the name is a task" in read(refused)["detail"]
    assert program.client.delete(f"/api/v1{path}files/{number}/", headers=program.headers).status_code == 204
    assert program.client.delete(f"/api/v1{path}files/{number}/", headers=program.headers).status_code == 404
    assert program.post(f"{path}confirm/").status_code == 200


def test_bytes_that_are_submitted_already_need_a_word_more(act: Act, path: str, submit: Submit) -> None:
    earlier = submit()
    program = act()
    send(program, path, "l1-09.py", SOURCE)
    assert read(program.get(f"{path}files/"))["files"][0]["earlier_run"] == str(earlier)
    assert program.post(f"{path}confirm/").status_code == 409
    assert program.post(f"{path}confirm/", {"allow_duplicates": True}).status_code == 200


def test_a_spent_quota_takes_none(act: Act, path: str, people: People, submit: Submit) -> None:
    people.team.daily_runs = 1
    people.team.save()
    submit()
    program = act()
    send(program, path, "l1-09/1.py")
    refused = program.post(f"{path}confirm/")
    assert refused.status_code == 429
    assert 86_000 < int(refused.headers["Retry-After"]) <= 86_400
    assert read(program.get(path))["state"] == "draft"
    assert Run.objects.count() == 1


def test_runs_of_a_campaign_are_cancelled_together(act: Act, path: str) -> None:
    send(act(), path, "l1-09/1.py")
    send(act(), path, "l1-09/2.py")
    act().post(f"{path}confirm/")
    assert act("charlie").post(f"{path}cancel/").status_code == 404
    assert read(act().post(f"{path}cancel/"))["states"] == {"cancelled": 2}


def test_a_discarded_draft_takes_nothing(act: Act, path: str) -> None:
    assert read(act().post(f"{path}discard/"))["state"] == "discarded"
    assert "was discarded" in read(send(act(), path, "l1-09.py"))["detail"]


@pytest.mark.parametrize(
    ("role", "scope", "statuses"),
    [
        ("anonymous", "", (401, 401)),
        ("charlie", "submit", (404, 404)),
        ("staff", "submit", (404, 404)),
        ("bob", "read", (200, 403)),
        ("bob", "submit", (200, 200)),
    ],
)
def test_who_may_read_and_write(act: Act, draft: Campaign, role: str, scope: str, statuses: tuple[int, int]) -> None:  # noqa: F811
    path = f"/campaigns/{draft}/"
    send(act(), path, "l1-09.py")
    program = act(role, scope)
    for place in (path, f"{path}files/"):
        assert program.get(place).status_code == statuses[0]
    assert program.patch(path, {"visibility": "team", "release_source": False}).status_code == statuses[1]
    assert send(program, path, "l1-09.py").status_code == statuses[1]
    assert program.post(f"{path}confirm/").status_code == statuses[1]


def test_a_reviewer_sees_what_was_submitted_and_changes_nothing(act: Act, path: str, put: Put) -> None:  # noqa: F811
    put("l1-09.py")
    act().post(f"{path}confirm/")
    assert act("staff").get(path).status_code == 200
    assert act("staff").patch(path, {"visibility": "public", "release_source": True}).status_code == 404


def test_of_runs_that_only_their_submitter_sees_nothing_is_counted_for_others(act: Act, path: str, put: Put) -> None:  # noqa: F811
    put("l1-09.py")
    act().post(f"{path}confirm/")
    assert read(act().get(path))["states"] == {"queued": 1}
    assert read(act("bob").get(path))["states"] == {}
    act().patch(path, {"visibility": "team", "release_source": False})
    assert read(act("bob").get(path))["states"] == {"queued": 1}


def test_drafts_of_other_teams_cannot_be_begun(act: Act, system: System) -> None:
    body = {"system": system.slug, "environment": "cpu-interpreter"}
    assert "system" in read(act("charlie").post("/campaigns/", body))["errors"]
    assert not Campaign.objects.exists()


def test_a_list_costs_few_queries(
    act: Act,
    path: str,
    put: Put,  # noqa: F811
    django_assert_max_num_queries: DjangoAssertNumQueries,
) -> None:
    for number in (1, 2, 3):
        put(f"l1-09/{number}.py")
    program = act()
    program.get("/campaigns/")
    with django_assert_max_num_queries(10):
        program.get(f"{path}files/")
    program.post(f"{path}confirm/")
    with django_assert_max_num_queries(6):
        assert len(read(program.get("/runs/"))["results"]) == 3
