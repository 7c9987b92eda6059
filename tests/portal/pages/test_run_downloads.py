from __future__ import annotations

import re

import pytest
from django.test import Client

from tests.conftest import Submit
from tests.portal.factories import SOURCE, reject
from tests.portal.pages.conftest import Finish, Visit
from tests.portal.pages.test_run_detail import build_evidence
from verifier.verdict import Outcome, Verdict


def test_the_verdict_is_the_published_form(client: Client, submit: Submit, finish: Finish) -> None:
    run = finish(submit(visibility="public"))
    response = client.get(f"/runs/{run.public_id}/verdict.json")
    assert response.headers["Content-Type"] == "application/json"
    assert response.headers["Content-Disposition"] == f'attachment; filename="verdict-{run.public_id}.json"'
    verdict = Verdict.model_validate_json(response.content)
    assert (verdict.outcome, verdict.solution_sha256) == (Outcome.ACCEPTED, run.source_id)
    assert response.json()["schema"] == "kernelquest.verdict/1"


def test_the_verdict_names_hidden_distributions_to_reviewers_only(visit: Visit, submit: Submit, finish: Finish) -> None:
    run = finish(submit(visibility="public"), reject, evidence=build_evidence())
    path = f"/runs/{run.public_id}/verdict.json"
    assert re.search(rb"\bties\b", visit("staff").get(path).content)
    for role in ("anonymous", "alice"):
        content = visit(role).get(path).content
        assert not re.search(rb"\bties\b", content)
        assert b"hidden-1" in content


def test_what_a_submission_printed_goes_with_its_source(visit: Visit, submit: Submit, finish: Finish) -> None:
    run = finish(submit(visibility="public"), reject, evidence=build_evidence())
    path = f"/runs/{run.public_id}/verdict.json"
    for role, told in (("bob", True), ("charlie", False)):
        content = visit(role).get(path).content
        assert (b'output_tail": "printed' in content) is told
        assert (b'traceback": "Traceback' in content) is told


def test_there_is_no_verdict_before_the_end(client: Client, submit: Submit) -> None:
    run = submit(visibility="public")
    assert client.get(f"/runs/{run.public_id}/verdict.json").status_code == 404


@pytest.mark.parametrize(
    ("role", "status"), [("anonymous", 404), ("charlie", 404), ("bob", 404), ("alice", 200), ("staff", 200)]
)
def test_who_reads_the_verdict_of_a_private_run(
    visit: Visit, submit: Submit, finish: Finish, role: str, status: int
) -> None:
    run = finish(submit(visibility="private"))
    assert visit(role).get(f"/runs/{run.public_id}/verdict.json").status_code == status


@pytest.mark.parametrize(
    ("role", "status"), [("anonymous", 404), ("charlie", 404), ("bob", 200), ("alice", 200), ("staff", 200)]
)
def test_who_reads_the_source_of_a_public_run(visit: Visit, submit: Submit, role: str, status: int) -> None:
    run = submit(visibility="public")
    assert visit(role).get(f"/runs/{run.public_id}/solution.py").status_code == status


def test_the_source_is_sent_as_plain_text(visit: Visit, submit: Submit) -> None:
    response = visit("alice").get(f"/runs/{submit().public_id}/solution.py")
    assert response.content.decode() == SOURCE
    assert response.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert response.headers["Content-Disposition"] == 'attachment; filename="solution.py"'
    assert response.headers["X-Content-Type-Options"] == "nosniff"
