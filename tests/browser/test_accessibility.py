"""The public pages as axe judges them, how much a first view weighs, and what the keyboard reaches."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from tests.browser.conftest import CHROMIUM, ROOT, Portal

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed: apt-get install chromium")

PAGES = [
    "/", "/levels/", "/failures/", "/compare/", "/compare/?systems=invented-1&systems=invented-2",
    "/systems/invented-1/", "/spotlight/attention/", "/contract/", "/methodology/", "/style/", "/tasks/",
    "/tasks/sparsemax-rows/", "/tasks/attn-softplus-bias-softmin/", "/runs/", "/sign-in/", "/nowhere/",
    "/?level=L9", "/?family=nothing&as_of=2000-01-01",
]  # fmt: skip
FIRST_VIEW_BYTES = 600 * 1024
# What axe recommends beyond the rules of WCAG counts too.
RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}


# The numbers of lines of code stand as close as the lines do, which WCAG excepts from its least size of targets.
CONTEXT = {"exclude": [[".linenos"]]}


@pytest.fixture(scope="module", autouse=True)
def _populated(portal: Portal) -> None:
    command = [sys.executable, "-m", "tests.portal.population", "240", "4"]
    subprocess.run(command, env=portal.variables, cwd=ROOT, check=True, timeout=120)


@pytest.fixture
def visitor(browser: Browser, portal: Portal) -> Iterator[Page]:
    """A page of somebody who has not signed in, with an empty cache."""
    context = browser.new_context(base_url=portal.address, viewport={"width": 1280, "height": 900})
    yield context.new_page()
    context.close()


def open_page(page: Page, path: str) -> None:
    """Go to a page and wait for its charts."""
    page.goto(path)
    for chart in page.locator("[data-chart]").all():
        chart.locator(".main-svg").first.wait_for()


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 390)])
def test_axe_finds_nothing(visitor: Page, scheme: str, width: int) -> None:
    visitor.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    visitor.set_viewport_size({"width": width, "height": 900})
    found = []
    for path in PAGES:
        open_page(visitor, path)
        for violation in Axe().run(visitor, CONTEXT, RULES).response["violations"]:
            places = [node["target"] for node in violation["nodes"]]
            found.append((path, violation["id"], violation["help"], places[:3]))
    assert found == []


def test_axe_would_find_a_fault(visitor: Page) -> None:
    open_page(visitor, "/methodology/")
    visitor.evaluate("document.querySelector('main').insertAdjacentHTML('beforeend', '<img src=\"/x.png\"><input>')")
    found = {violation["id"] for violation in Axe().run(visitor, CONTEXT, RULES).response["violations"]}
    assert {"image-alt", "label"} <= found


@pytest.mark.parametrize("path", ["/", "/levels/", "/tasks/sparsemax-rows/"])
def test_a_first_view_is_light(visitor: Page, path: str) -> None:
    session = visitor.context.new_cdp_session(visitor)
    session.send("Network.enable")
    sizes: list[float] = []
    session.on("Network.loadingFinished", lambda event: sizes.append(event["encodedDataLength"]))
    visitor.goto(path, wait_until="networkidle")
    assert len(sizes) > 8
    assert sum(sizes) < FIRST_VIEW_BYTES, f"{sum(sizes) / 1024:.0f} KiB in {len(sizes)} answers"


LIST_UNREACHABLE = """() => [
  ...document.querySelectorAll("[data-chart]:not([hidden])"),
  ...[...document.querySelectorAll("table:not(.highlighttable)")].map((table) => table.closest(".scroller") ?? table),
].filter((part) => part.tabIndex < 0).map((part) => part.outerHTML.slice(0, 120))"""
NAME_FOCUSED = (
    """() => document.activeElement.dataset.chart ?? document.activeElement.getAttribute("aria-labelledby")"""
)


def test_charts_and_tables_can_be_reached_by_keyboard(visitor: Page) -> None:
    for path in PAGES:
        open_page(visitor, path)
        assert visitor.evaluate(LIST_UNREACHABLE) == [], path


def test_the_keyboard_walks_over_the_board(visitor: Page) -> None:
    open_page(visitor, "/")
    visited = set()
    for _ in range(120):
        visitor.keyboard.press("Tab")
        visited.add(visitor.evaluate(NAME_FOCUSED))
    assert {"pass-rates", "rates-h200", "published-caption", "board-h200"} <= visited
