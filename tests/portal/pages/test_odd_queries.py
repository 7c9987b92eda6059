"""Addresses that nobody should write: every public page and file answers them, and says what it did not understand."""

from __future__ import annotations

from itertools import product
from urllib.parse import quote

import pytest
from django.test import Client

from portal.catalog.models import Release
from tests.portal.population import populate

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("_populated")]

FILTERED = ["/", "/levels/", "/failures/", "/compare/", "/systems/invented-1/"]
FILES = ["/board.csv", "/board.json", "/board.atom"]
OTHERS = [
    "/systems/", "/tasks/", "/tasks/sparsemax-rows/", "/runs/", "/spotlight/attention/", "/contract/", "/methodology/",
    "/style/", "/published.csv", "/published.json",
]  # fmt: skip
EVERYTHING = [*FILTERED, *FILES, *OTHERS]
FIELDS = ["environment", "level", "family", "dtype", "release", "as_of", "sort", "page", "systems", "task", "counted"]
VALUES = [
    "\x00", "\ud800", "", "\u202e\u0301\U0001f9e8", "9" * 400, "-1", "1e309", "NaN", "../../etc/passwd", "' OR 1=1 --",
    "<script>alert(1)</script>", "%00%ff", "L1\nL2", "a" * 5_000, "None", "[]",
]  # fmt: skip
DAYS = ["2000-01-01", "9999-12-31", "0001-01-01", "2026-02-30", "10000-01-01", "yesterday", "0000-00-00", "2026-1-1"]


@pytest.fixture
def _populated(catalog: None) -> None:
    populate(60, systems=5)


def write_query(field: str, value: str) -> str:
    return f"{field}={quote(value, errors='surrogatepass')}"


def test_no_value_of_any_field_breaks_a_page(client: Client) -> None:
    together = ["&".join(write_query(field, value) for field in FIELDS) for value in VALUES]
    alone = [write_query(field, value) for field in FIELDS for value in VALUES[:2]]
    for path, query in product(EVERYTHING, [*together, *alone]):
        answer = client.get(f"{path}?{query}")
        assert answer.status_code in (200, 400), (path, query)
        assert b"<script>alert(1)" not in answer.content, (path, query)


def test_no_day_breaks_a_page(client: Client) -> None:
    for path, day in product([*FILTERED, *FILES], DAYS):
        assert client.get(f"{path}?as_of={day}").status_code in (200, 400), (path, day)


def test_a_page_says_what_it_did_not_understand(client: Client) -> None:
    for path, query in product(FILTERED, ["level=L9", "as_of=yesterday", "environment=nowhere", "release=0000"]):
        page = client.get(f"{path}?{query}").content.decode()
        assert "is not one of the available choices" in page or "Enter a valid date" in page, (path, query)


def test_a_file_is_refused_with_what_its_filters_take(client: Client) -> None:
    for path in FILES:
        answer = client.get(f"{path}?level=L9&as_of=yesterday&dtype=fp32")
        assert answer.status_code == 400
        lines = answer.content.decode().splitlines()
        assert lines == ["level: choose one of L1, L2, L3, L4", "as_of: write a day as 2026-01-31"]
        assert answer["Content-Type"].startswith("text/plain")


def test_of_repeated_keys_one_counts(client: Client) -> None:
    query = "level=L1&level=L2&sort=runs&sort=system&as_of=2026-01-05&as_of="
    assert {client.get(f"{path}?{query}").status_code for path in [*FILTERED, *FILES]} == {200}


def test_before_the_first_verdict_a_page_says_that_there_is_nothing(client: Client) -> None:
    for path in FILTERED:
        page = client.get(f"{path}?as_of=2000-01-01").content.decode()
        assert "matches" in page or "that match" in page, path


def test_the_future_holds_what_is_known_now(client: Client) -> None:
    now, then = (client.get(f"/board.json?as_of={day}").json()["rows"] for day in ("2100-01-01", "9999-12-31"))
    assert now == then == client.get("/board.json").json()["rows"]


def test_a_comparison_says_what_it_cannot_compare(client: Client) -> None:
    five = "&".join(f"systems=invented-{number}" for number in range(1, 6))
    for query, words in [
        ("", "Choose 2 to 4 systems."),
        ("systems=", "0 of those asked for"),
        ("systems=invented-1", "1 of those asked for has public runs"),
        ("systems=invented-1&systems=invented-1", "1 of those asked for has public runs"),
        ("systems=nobody&systems=nothing", "0 of those asked for have public runs"),
        ("systems=invented-1&systems=nobody&systems=invented-2", "Not compared: nobody"),
        (five, "5 of those asked for have public runs"),
    ]:
        page = client.get(f"/compare/?{query}")
        assert page.status_code == 200
        assert words in page.content.decode(), query


def test_the_release_of_the_address_is_in_every_file(client: Client) -> None:
    release = Release.objects.get().slug
    rows = client.get(f"/board.json?release={release}").json()["rows"]
    assert rows == [row | {"release": release} for row in client.get("/board.json").json()["rows"]]
    assert {row["release"] for row in rows} == {release}


def test_a_system_that_is_not_there_is_not_found(client: Client) -> None:
    for name in ("Invented 1", "nobody", "a" * 300, "%00"):
        assert client.get(f"/systems/{name}/").status_code == 404, name


def test_pages_only_answer_reading(client: Client) -> None:
    for path, method in product(EVERYTHING, ["post", "put", "delete", "patch"]):
        assert getattr(client, method)(path).status_code == 405, (path, method)
