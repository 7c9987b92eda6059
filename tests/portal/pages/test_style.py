from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.conf import settings
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from portal.standings.views.guide import read_tokens

STYLES = Path(settings.BASE_DIR) / "static" / "css"

pytestmark = pytest.mark.django_db


def test_every_token_is_shown_as_what_it_is(client: Client) -> None:
    page = client.get("/style/").content.decode()
    rules = (STYLES / "style-guide.css").read_text()
    defined = re.findall(r"^\s+--([\w-]+):", (STYLES / "tokens.css").read_text(), re.MULTILINE)
    assert [token.name for token in read_tokens()] == defined
    for token in read_tokens():
        assert page.count(f'token--{token.name}"') == 2, token.name
        assert f".token--{token.name} {{" in rules
        assert f"var(--{token.name})" in rules.split(f".token--{token.name} {{")[1].split("}")[0]


def test_every_badge_and_message_is_shown_in_both_schemes(client: Client) -> None:
    page = client.get("/style/").content.decode()
    kinds = set(re.findall(r"^\.((?:badge|notice|button)--\w+)", (STYLES / "components.css").read_text(), re.MULTILINE))
    assert len(kinds) > 6
    for kind in kinds:
        assert len(re.findall(rf'class="[^"]*\b{kind}\b', page)) >= 2, kind


def test_ids_are_there_once(client: Client) -> None:
    ids = re.findall(r' id="([^"]+)"', client.get("/style/").content.decode())
    assert len(ids) == len(set(ids)) > 20


def test_it_needs_no_query(client: Client, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    with django_assert_num_queries(0):
        assert client.get("/style/").status_code == 200
