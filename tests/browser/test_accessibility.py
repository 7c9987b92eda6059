"""Every page as axe judges it, how much a first view weighs, and what the keyboard reaches."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import CHROMIUM, ROOT, Portal
from tests.browser.worlds import Populated, serve

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed: apt-get install chromium")

PAGES = [
    "/", "/levels/", "/failures/", "/compare/", "/compare/?systems=invented-1&systems=invented-2",
    "/systems/", "/systems/invented-1/", "/spotlight/attention/", "/contract/", "/methodology/", "/style/", "/tasks/",
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


# Charts, and tables that are wider than their place, which the keyboard cannot reach.
LIST_CUT_OFF = """() => [
  ...document.querySelectorAll("[data-chart]:not([hidden])"),
  ...[...document.querySelectorAll(".scroller")].filter((part) => part.scrollWidth > part.clientWidth),
].filter((part) => part.tabIndex < 0).map((part) => part.outerHTML.slice(0, 120))"""


@pytest.fixture(scope="module")
def populated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Populated]:
    with serve(tmp_path_factory.mktemp("populated")) as populated:
        yield populated


def list_own_pages(populated: Populated) -> dict[str, list[str]]:
    """Return the pages that somebody sees who has signed in, by person."""
    pages, more = populated.pages, populated.more
    return {
        "alice": [
            *("/account/", "/account/tokens/", "/account/email/", "/account/password/", "/account/sessions/"),
            *("/account/second-factor/", "/account/second-factor/webauthn/", "/account/second-factor/recovery-codes/"),
            *("/notifications/", "/notifications/settings/", "/teams/new/", "/submit/", "/campaigns/"),
            *(pages[f"accounts:{name}"] for name in ("team", "add_system", "change_system", "invitation")),
            *(pages["runs:run_detail"], pages["campaigns:campaign"]),
            *(path for name, path in more.items() if name.startswith("run")),
        ],
        "judith": [
            *("/review/", "/review/?kind=fast", "/review/?held=mine", "/review/trail/"),
            *(pages["review:case"], pages["review:difference"]),
            *(path for name, path in more.items() if name.startswith("case")),
        ],
        "greta": ["/review/again/", "/review/again/?environment=h200", pages["review:batch"]],
    }


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 360)])
def test_axe_finds_nothing_on_the_pages_of_teams_and_reviewers(
    browser: Browser, populated: Populated, scheme: Literal["light", "dark"], width: int
) -> None:
    found = []
    for person, paths in list_own_pages(populated).items():
        context = populated.open(browser, person, viewport={"width": width, "height": 900}, color_scheme=scheme)
        page = context.new_page()
        for path in paths:
            open_page(page, path)
            violations = Axe().run(page, CONTEXT, RULES).response["violations"]
            found += [(path, one["id"], [node["target"] for node in one["nodes"]][:3]) for one in violations]
            if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                found.append((path, "wider than the screen", []))
            if unreachable := page.evaluate(LIST_CUT_OFF):
                found.append((path, "not reached by keyboard", unreachable))
        context.close()
    assert found == [], "\n".join(map(str, found))


def test_reviewers_go_through_the_queue_by_keyboard(browser: Browser, populated: Populated) -> None:
    """To a case, into its decision, and back, without a pointer."""
    context = populated.open(browser, "judith")
    page = context.new_page()
    page.goto("/review/")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{populated.pages['review:case']}")
    take = page.get_by_role("button", name="Take the case")
    take.focus()
    page.keyboard.press("Enter")
    reason = page.get_by_label("Reason, which the team reads")
    page.get_by_role("radio", name="Uphold the verdict").focus()
    page.keyboard.press("Space")
    for _ in range(8):
        page.keyboard.press("Tab")
        if reason.evaluate("box => box === document.activeElement"):
            break
    page.keyboard.type("j, k and u are letters here, and the text stays as it is typed.")
    expect(reason).to_have_value("j, k and u are letters here, and the text stays as it is typed.")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/review/(#decide)?$"))
    expect(page.get_by_text("Uphold the verdict: kept")).to_be_visible()
    context.close()


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
