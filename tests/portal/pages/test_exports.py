"""The board as files and as a feed: the same rows, order and figures as the page at the same address."""

from __future__ import annotations

import csv
import io
import json
import re
import xml.etree.ElementTree as ET
from typing import Any

import pytest
from django.test import Client

from portal.runs.services import set_visibility
from portal.systems.services import create_system
from tests.conftest import People, Submit
from tests.portal.factories import judge, judge_timed, reject
from tests.portal.pages.conftest import Finish
from verifier.verdict import FailureCode, Outcome

pytestmark = pytest.mark.django_db

ATOM = {"atom": "http://www.w3.org/2005/Atom"}


@pytest.fixture
def _judged(submit: Submit, finish: Finish, people: People) -> None:
    other = create_system(slug="other", name="=Other", team=people.team)
    finish(submit(visibility="public"))
    finish(submit(visibility="public", system=other), reject, FailureCode.PREC_TF32)
    finish(submit(visibility="public", system=other))
    finish(submit(visibility="private", system=other))


def read_rows(client: Client, query: str = "") -> list[dict[str, Any]]:
    response = client.get(f"/board.json?{query}")
    assert response.status_code == 200
    rows: list[dict[str, Any]] = json.loads(response.content)["rows"]
    return rows


@pytest.mark.usefixtures("_judged")
def test_the_files_hold_what_the_page_shows(client: Client) -> None:
    page = client.get("/").content.decode()
    rows = read_rows(client)
    assert [row["system"] for row in rows] == re.findall(r'href="/systems/([\w-]+)/', page)
    for row in rows:
        shown = f"[{row['rate_low_percent']:.1f}, {row['rate_high_percent']:.1f}]"
        assert shown in page
        assert f"{row['rate_percent']:.1f} %" in page
    assert [row["runs"] for row in rows] == [1, 2]


@pytest.mark.usefixtures("_judged")
def test_csv_and_json_agree(client: Client) -> None:
    text = client.get("/board.csv").content.decode()
    table = list(csv.DictReader(io.StringIO(text)))
    rows = read_rows(client)
    assert len(table) == len(rows) == 2
    for cells, row in zip(table, rows, strict=True):
        assert list(cells) == list(row)
        assert cells["rate_percent"] == str(row["rate_percent"])
        assert cells["geometric_mean_speedup"] == ""
        assert row["geometric_mean_speedup"] is None


@pytest.mark.usefixtures("_judged")
def test_a_spreadsheet_runs_nothing(client: Client) -> None:
    assert ",'=Other," in client.get("/board.csv").content.decode()


@pytest.mark.usefixtures("_judged")
def test_the_feed_has_one_entry_a_row(client: Client) -> None:
    response = client.get("/board.atom?environment=cpu-interpreter")
    assert response["Content-Type"].startswith("application/atom+xml")
    entries = ET.fromstring(response.content).findall("atom:entry", ATOM)
    titles = [entry.findtext("atom:title", namespaces=ATOM) for entry in entries]
    assert titles == ["Hand-written in CPU interpreter", "=Other in CPU interpreter"]
    link = entries[0].find("atom:link", ATOM)
    assert link is not None
    assert link.attrib["href"] == "http://testserver/systems/hand-written/?environment=cpu-interpreter"
    assert client.get(link.attrib["href"]).status_code == 200


@pytest.mark.usefixtures("_judged")
def test_filters_and_order_are_those_of_the_address(client: Client) -> None:
    assert [row["system"] for row in read_rows(client, "sort=system")] == ["other", "hand-written"]
    assert [row["system"] for row in read_rows(client, "sort=runs")] == ["other", "hand-written"]
    assert read_rows(client, "level=L2") == []
    assert read_rows(client, "as_of=2020-01-01") == []
    assert len(read_rows(client, "as_of=9999-12-31")) == 2
    assert client.get("/board.csv?level=L2").content == b""


@pytest.mark.parametrize("path", ["/board.csv", "/board.json", "/board.atom"])
@pytest.mark.parametrize("query", ["level=L9", "as_of=yesterday", "environment=nowhere", "sort=luck"])
def test_a_filter_that_is_not_understood_gives_no_file(client: Client, path: str, query: str) -> None:
    assert client.get(f"{path}?{query}").status_code == 400


def test_the_page_says_which_filter_it_did_not_understand(client: Client) -> None:
    response = client.get("/?as_of=yesterday")
    assert response.status_code == 200
    assert "Enter a valid date." in response.content.decode()


def test_what_was_judged_later_is_not_counted(client: Client, submit: Submit, finish: Finish) -> None:
    run = finish(submit(visibility="public"))
    assert run.finished_at is not None
    day = run.finished_at.date()
    assert len(read_rows(client, f"as_of={day}")) == 1
    run.finished_at = run.finished_at.replace(year=run.finished_at.year + 1)
    run.save(update_fields=["finished_at"])
    assert read_rows(client, f"as_of={run.finished_at.date()}")[0]["runs"] == 1


def test_a_board_changes_with_the_next_verdict_and_with_who_sees_a_run(
    client: Client, submit: Submit, finish: Finish, people: People
) -> None:
    run = finish(submit(visibility="public"))
    assert read_rows(client)[0]["runs_succeeded"] == 1
    finish(submit(visibility="public"), reject, FailureCode.PREC_TF32)
    assert read_rows(client)[0]["runs"] == 2
    set_visibility(run=run, user=people.alice, visibility="private", release_source=False)
    assert [(row["runs"], row["runs_succeeded"]) for row in read_rows(client)] == [(1, 0)]


def test_targets_capture_and_speed_are_exported(client: Client, submit: Submit, finish: Finish, gpu: object) -> None:
    passed = {"outcome": Outcome.PASSED, "target": 2.0, "speedup": 4.0, "capture": 1.0}
    finish(submit(visibility="public", environment=gpu), judge_timed, **passed)
    finish(
        submit(visibility="public", environment=gpu),
        judge,
        outcome=Outcome.REJECTED,
        failures=[FailureCode.PREC_TF32],
        target=2.0,
        measured_speedup=9.0,
    )
    (row,) = read_rows(client)
    assert (row["measure"], row["rate_percent"], row["mean_capture_percent"]) == ("pass rate", 50.0, 50.0)
    assert row["geometric_mean_speedup"] == pytest.approx(4.0)
    assert row["runs_rejected_at_or_above_target"] == 1


def test_published_figures_keep_their_provenance(client: Client) -> None:
    rows = json.loads(client.get("/published.json").content)["rows"]
    first = rows[0]
    assert (first["system"], first["pass_rate"], first["pass_rate_provenance"]) == ("Claude Opus 5", "67.0 %", "stated")
    table = list(csv.DictReader(io.StringIO(client.get("/published.csv").content.decode())))
    assert [row["rank"] for row in table] == ["1", "2 to 3", "2 to 4", "3 to 4"]
    assert {row["rank_provenance"] for row in table} == {"derived"}
