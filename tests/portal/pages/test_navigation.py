from __future__ import annotations

import re

import pytest
from django.test import Client

from tests.portal.pages.conftest import Visit

pytestmark = pytest.mark.django_db

BOARD = ["/", "/levels/", "/failures/", "/compare/", "/systems/", "/spotlight/attention/"]
OTHERS = ["/tasks/", "/runs/", "/contract/", "/methodology/"]


def list_current(page: str) -> list[tuple[str, str]]:
    """Return what the navigation marks as current: how, and its words."""
    return re.findall(r'aria-current="(\w+)">([^<]+)<', page.split('id="content"', maxsplit=1)[0])


def test_pages_of_the_board_have_a_navigation_of_their_own(client: Client) -> None:
    for path in BOARD:
        page = client.get(path).content.decode()
        assert 'aria-label="Board"' in page
        marked = list_current(page)
        assert marked[0][1] == "Board"
        assert marked[1][0] == "page", path
        assert all(f'href="{other}"' in page for other in BOARD)


def test_other_pages_stand_beside_the_board(client: Client) -> None:
    for path in OTHERS:
        page = client.get(path).content.decode()
        assert 'aria-label="Board"' not in page
        assert [how for how, _ in list_current(page)] == ["page"], path


def test_a_page_that_is_not_there_marks_nothing(client: Client) -> None:
    page = client.get("/nowhere/").content.decode()
    assert list_current(page) == []
    assert 'href="/methodology/"' in page


def test_reviewers_find_their_pages(visit: Visit) -> None:
    assert 'href="/review/"' in visit("staff").get("/tasks/").content.decode()
