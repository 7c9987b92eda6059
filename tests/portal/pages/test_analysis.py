"""Levels, failures, comparisons and systems, on invented runs."""

from __future__ import annotations

import re
from html import unescape

import pytest
from django.test import Client

from portal.runs.models import Run
from portal.runs.services import set_visibility
from portal.standings.boards import build_board
from portal.standings.counts import read_tallies
from portal.standings.models import Standing
from portal.standings.selection import Selection
from portal.systems.models import System
from tests.conftest import People, Submit
from tests.portal.pages.conftest import Visit
from tests.portal.population import populate

pytestmark = pytest.mark.django_db

PAGES = ["/", "/levels/", "/failures/", "/compare/?systems=invented-1&systems=invented-2", "/systems/invented-1/"]
RUNS = 150


@pytest.fixture
def _populated(catalog: None) -> None:
    populate(RUNS, systems=3)


def read(client: Client, path: str) -> str:
    response = client.get(path)
    assert response.status_code == 200
    return response.content.decode()


def count_runs(client: Client, address: str) -> int:
    """Return how many runs the list at `address` holds, as it says itself."""
    page = read(client, unescape(address))
    found = re.search(r"Page \d+ of \d+, (\d+) runs?", page)
    return int(found[1]) if found else 0


@pytest.mark.parametrize("path", ["/levels/", "/failures/", "/compare/", "/compare/?systems=nobody&systems=nothing"])
def test_pages_say_when_there_is_nothing(client: Client, path: str) -> None:
    page = read(client, path)
    assert "judged here matches" in page or "A comparison needs 2" in page


@pytest.mark.usefixtures("_populated")
@pytest.mark.parametrize("path", ["/failures/", "/levels/", "/", "/systems/invented-2/", PAGES[3]])
def test_every_figure_links_to_as_many_runs_as_it_says(client: Client, path: str) -> None:
    links = re.findall(r'href="(/runs/\?[^"]*counted=on[^"]*)">(\d+)</a>', read(client, path))
    assert len(links) > (0 if path in PAGES[:2] else 3) or path in ("/levels/", PAGES[3])
    for address, figure in links[:: max(1, len(links) // 12)]:
        assert count_runs(client, address) == int(figure), address


@pytest.mark.usefixtures("_populated")
def test_levels_say_how_many_runs_stand_behind_a_rate(client: Client) -> None:
    cells = re.findall(r'href="(/runs/\?[^"]+)">[\d.]+ %</a>.*?(\d+) runs?, (\d+) tasks?', read(client, "/levels/"))
    assert cells
    assert 'data-label="L1"' in read(client, "/levels/")
    for address, runs, _ in cells[:4]:
        assert count_runs(client, address) == int(runs)


@pytest.mark.usefixtures("_populated")
def test_failures_count_what_a_stopwatch_would_have_called_wins(client: Client) -> None:
    fast = Run.objects.counted().rejected_fast().count()
    rejected = Run.objects.filter(verdict__outcome="rejected").count()
    page = read(client, "/failures/?environment=h200")
    assert f">{fast}</a> of {rejected} rejected runs" in page
    assert fast > 0


@pytest.mark.usefixtures("_populated")
def test_a_filter_narrows_every_figure(client: Client) -> None:
    whole, narrow = (sum(Standing.objects.values_list("runs", flat=True)), read_tallies(Selection(level="L1")))
    expected = Run.objects.counted().filter(task__level="L1").count()
    assert sum(tally.runs for tally in narrow) == expected < whole
    assert f"{expected} runs of" in read(client, "/?level=L1&environment=h200")


@pytest.mark.usefixtures("_populated")
def test_the_board_agrees_with_the_standings() -> None:
    rows = {row.system: row for row in build_board("h200", read_tallies(Selection("h200"))).rows}
    standings = list(Standing.objects.all())
    assert len(standings) == len(rows) == 3
    for standing in standings:
        row = rows[standing.system_id]
        assert (row.runs, row.succeeded, row.rejected, row.rejected_fast) == (
            standing.runs, standing.passed, standing.rejected, standing.rejected_fast,
        )  # fmt: skip
        assert (row.solved_once, row.solved_twice) == (standing.tasks_passed_once, standing.tasks_passed_twice)
        assert row.speedup is not None
        assert row.speedup.mean == pytest.approx(standing.geometric_mean_speedup)


@pytest.mark.usefixtures("_populated")
@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("systems=invented-1", "Choose 2 to 4 systems"),
        ("systems=invented-1&systems=invented-1", "1 of those asked for has"),
        ("systems=invented-1&systems=nobody", "1 of those asked for has"),
        ("systems=invented-1&systems=invented-2&systems=invented-3", "Pairs in NVIDIA H200"),
    ],
)
def test_a_comparison_takes_two_to_four_systems(client: Client, query: str, words: str) -> None:
    assert words in read(client, f"/compare/?{query}")


@pytest.mark.usefixtures("_populated")
def test_a_comparison_keeps_its_systems_when_filtered(client: Client) -> None:
    page = read(client, "/compare/?systems=invented-2&systems=invented-1&level=L1")
    assert len(re.findall(r'value="invented-\d" checked', page)) == 2
    assert '<option value="L1" selected>' in page
    assert "L2" not in page.split('id="tasks"')[1].split("</section>")[0]


def test_a_system_without_a_visible_run_is_not_there(visit: Visit, submit: Submit, system: System) -> None:
    assert visit("anonymous").get(f"/systems/{system.slug}/").status_code == 404
    submit(visibility="private")
    assert visit("anonymous").get(f"/systems/{system.slug}/").status_code == 404
    assert visit("charlie").get(f"/systems/{system.slug}/").status_code == 404
    assert visit("alice").get(f"/systems/{system.slug}/").status_code == 200
    assert visit("anonymous").get("/systems/nobody/").status_code == 404


def test_private_runs_enter_no_figure(client: Client, catalog: None, people: People) -> None:
    populate(30, systems=1)
    for run in Run.objects.all():
        set_visibility(run=run, user=people.admin, visibility="private", release_source=False)
    for path in ("/levels/", "/failures/", "/"):
        assert "30 runs" not in read(client, path)
