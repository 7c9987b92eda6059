"""How many queries a public page makes, on invented runs."""

from __future__ import annotations

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from portal.runs.models import Run
from tests.portal.population import populate

pytestmark = pytest.mark.django_db

PAGES = [
    "/", "/?level=L1&sort=speedup", "/?as_of=2026-01-06", "/levels/", "/failures/", "/compare/",
    "/compare/?systems=invented-1&systems=invented-2&systems=invented-3", "/systems/", "/systems/invented-1/",
    "/spotlight/attention/", "/contract/", "/methodology/", "/style/", "/tasks/", "/tasks/sparsemax-rows/", "/runs/",
    "/board.csv", "/board.json", "/board.atom", "/published.csv", "/published.json",
]  # fmt: skip
MOST_QUERIES = 8


@pytest.fixture
def _populated(catalog: None) -> None:
    populate(240, systems=4)


@pytest.mark.usefixtures("_populated")
@pytest.mark.parametrize("path", PAGES)
def test_a_public_page_makes_few_queries(
    client: Client, path: str, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_max_num_queries(MOST_QUERIES):
        assert client.get(path).status_code == 200


@pytest.mark.usefixtures("_populated")
def test_a_run_makes_few_queries(client: Client, django_assert_max_num_queries: DjangoAssertNumQueries) -> None:
    run = Run.objects.all()[0]
    with django_assert_max_num_queries(MOST_QUERIES):
        assert client.get(f"/runs/{run.public_id}/").status_code == 200
