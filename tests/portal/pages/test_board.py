from __future__ import annotations

from pathlib import Path

import pytest
from django.conf import settings
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from portal.catalog.models import Environment
from portal.runs.services import set_visibility
from portal.standings import counts
from portal.standings.views import board
from tests.conftest import Submit
from tests.portal.factories import judge_timed, reject
from tests.portal.pages.conftest import Finish, Visit
from verifier.verdict import FailureCode

pytestmark = pytest.mark.django_db


def read(client: Client) -> str:
    response = client.get("/")
    assert response.status_code == 200
    return response.content.decode()


def test_it_shows_the_published_figures_with_their_provenance(client: Client) -> None:
    page = read(client)
    for text in ("Claude Opus 5", "67.0 %", "[61.5, 72.1]", "201 of 300", "3.10x", "93 %", "50.1 min"):
        assert text in page
    assert page.count(">stated</abbr>") > 20
    assert page.count(">derived</abbr>") > 10
    assert "not published" in page


def test_it_tells_of_the_rejected_runs_that_beat_the_target(client: Client) -> None:
    assert "170 of 565 rejected runs" in read(client)


def test_the_chart_has_the_figures_of_the_table(client: Client) -> None:
    page = read(client)
    assert '<script id="pass-rates" type="application/json">' in page
    assert "[61.5, 72.1]" in page


def test_nothing_is_verified_before_a_public_run_was_judged(client: Client, submit: Submit, finish: Finish) -> None:
    finish(submit(visibility="private"))
    assert "No public run has been judged yet" in read(client)


def test_it_shows_what_was_verified_here(client: Client, submit: Submit, finish: Finish) -> None:
    finish(submit(visibility="public"))
    finish(submit(visibility="public"), reject, FailureCode.PREC_TF32)
    page = read(client)
    assert "Hand-written" in page
    assert "50.0 %" in page
    assert "Acceptance" in page
    assert "not timed here" in page


def test_environments_are_kept_apart(client: Client, submit: Submit, finish: Finish, gpu: Environment) -> None:
    finish(submit(visibility="public"), reject, FailureCode.PREC_TF32)
    finish(submit(visibility="public", environment=gpu), judge_timed)
    page = read(client)
    interpreter, timed = (
        page.split(f'id="table-{slug}"')[1].split("</table>")[0] for slug in ("cpu-interpreter", "h200")
    )
    assert ("0.0 %" in interpreter, "not timed here" in interpreter, "14.75x" in interpreter) == (True, True, False)
    assert ("100.0 %" in timed, "14.75x" in timed, "not timed here" in timed) == (True, True, False)
    assert "counted=on&amp;environment=h200&amp;system=hand-written" in timed.replace("&system", "&amp;system")


def test_the_name_of_a_system_is_escaped(client: Client, submit: Submit, finish: Finish) -> None:
    run = finish(submit(visibility="public"))
    run.system.name = "<script>alert(1)</script>"
    run.system.save()
    page = read(client)
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page


def test_the_number_of_queries_is_fixed(
    client: Client, submit: Submit, finish: Finish, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for _ in range(3):
        finish(submit(visibility="public"))
    # Standings as stamp, families, environments and releases of the filter, rows, systems, environments of the boards.
    with django_assert_max_num_queries(7):
        read(client)
    with django_assert_max_num_queries(1):
        read(client)


def test_a_kept_page_shows_nothing_of_another_visitor(
    client: Client, visit: Visit, submit: Submit, finish: Finish
) -> None:
    finish(submit(visibility="public"))
    assert "alice" not in read(client)
    assert "alice" in read(visit("alice"))
    page = read(Client())
    assert "alice" not in page
    # It would go to visitors with other cookies.
    assert "csrfmiddlewaretoken" not in page


def test_a_kept_page_ends_with_the_next_verdict(client: Client, submit: Submit, finish: Finish) -> None:
    finish(submit(visibility="public"))
    assert "1 run of 1 task" in read(client)
    run = finish(submit(visibility="public"))
    assert "2 runs of 1 task" in read(client)
    set_visibility(run=run, user=run.submitted_by, visibility="private", release_source=False)
    assert "1 run of 1 task" in read(client)


def test_what_other_code_has_kept_is_not_shown(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    read(client)
    monkeypatch.setattr(board, "render_board", lambda _request, _stamp: "made anew")
    assert read(client) != "made anew"
    monkeypatch.setattr(counts, "read_code", lambda: "another version")
    assert read(client) == "made anew"


def test_an_address_that_is_not_understood_says_so(client: Client) -> None:
    for _ in range(2):
        page = client.get("/?level=L9&family=nothing").content.decode()
        assert page.count('aria-invalid="true"') == 2
        assert page.count("is not one of the available choices") == 2
    assert "is not one of the available choices" not in read(client)


def test_a_link_to_it_has_a_picture(client: Client) -> None:
    page = read(client)
    address = page.split('property="og:image" content="')[1].split('"')[0]
    assert address == "http://testserver/static/preview.png"
    assert (Path(settings.BASE_DIR) / "static" / "preview.png").read_bytes().startswith(b"\x89PNG")
