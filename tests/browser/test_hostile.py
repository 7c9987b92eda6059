"""Markup in every text that somebody can choose, and in what programs say, stays text on every page of the portal."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Dialog, Page

from portal.permissions import ADDRESSES
from tests.browser.conftest import CHROMIUM
from tests.browser.worlds import Populated, serve

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed: apt-get install chromium")

# Files that are downloaded, not shown.
FILES = {
    *("standings:board_csv", "standings:board_json", "standings:board_feed", "standings:published_csv"),
    *("standings:published_json", "runs:sample", "runs:verdict", "runs:source", "mfa_download_recovery_codes"),
    *("api:schema",),
}
# Everything of `tests.portal.world.MARKUP` that can come to life, in whatever part of it is left.
ALIVE = """() => [
  ...document.querySelectorAll(
    "img[src='x'], [onerror], [onload], a[href^='javascript:'], script:not([src]):not([type='application/json'])"
  ),
].map((part) => part.outerHTML.slice(0, 120))"""
LISTEN = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) =>
  window.violations.push(`${event.violatedDirective}: ${event.blockedURI} ${event.sourceFile}`));
"""


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Populated]:
    with serve(tmp_path_factory.mktemp("hostile"), "--hostile") as populated:
        yield populated


def list_paths(populated: Populated, reverse: dict[str, str]) -> dict[str, str]:
    """Return the address of every page that can be shown, by what it is called."""
    return {name: path for name, path in (reverse | populated.pages | populated.more).items() if name not in FILES}


@pytest.fixture(scope="module")
def plain() -> dict[str, str]:
    """The pages whose address names nothing."""
    from django.urls import NoReverseMatch, reverse  # noqa: PLC0415  after the settings

    found = {}
    for name, rule in ADDRESSES.items():
        try:
            if rule.read and name != "account_logout":
                found[name] = reverse(name)
        except NoReverseMatch:
            continue
    return found


def watch(page: Page) -> list[str]:
    """Return a list that grows with everything that the page complains about, but that something is not there."""
    complaints: list[str] = []

    def note(kind: str, text: str) -> None:
        if kind in ("error", "warning") and not text.startswith("Failed to load resource: the server responded"):
            complaints.append(text)

    def refuse(dialog: Dialog) -> None:
        complaints.append(f"a dialog: {dialog.message}")
        dialog.dismiss()

    page.on("console", lambda message: note(message.type, message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", refuse)
    page.add_init_script(LISTEN)
    return complaints


# Where a text of somebody else must be seen, or the test would prove nothing.
SHOWN = {
    "": {"standings:board", "runs:run_list", "standings:system", "runs:run_detail"},
    "alice": {
        "accounts:home",
        "accounts:team",
        "accounts:tokens",
        "notifications:list",
        "runs:submit",
        "runs:run_detail",
    },
    "judith": {"review:queue", "review:trail", "review:case", "review:difference", "runs:run_list"},
    "greta": {"review:verify_again", "review:batch", "review:case"},
}


@pytest.mark.parametrize("person", SHOWN)
def test_no_text_comes_to_life_and_no_page_breaks_the_policy(
    browser: Browser, hostile: Populated, plain: dict[str, str], person: str
) -> None:
    context = hostile.open(browser, person, viewport={"width": 1280, "height": 900})
    page = context.new_page()
    complaints = watch(page)
    found, shown = [], set()
    for name, path in list_paths(hostile, plain).items():
        page.goto(path, wait_until="load")
        for chart in page.locator("[data-chart]:not([hidden])").all():
            chart.locator(".main-svg").first.wait_for()
        alive = page.evaluate(ALIVE) + page.evaluate("window.violations")
        if page.evaluate("window.harmed") is not None:
            alive.append("harmed")
        found += [(name, one) for one in alive + complaints]
        complaints.clear()
        if "onerror=" in page.locator("body").inner_text() or "onerror=" in read_fields(page):
            shown.add(name)
    context.close()
    assert found == []
    assert SHOWN[person] <= shown, SHOWN[person] - shown


def read_fields(page: Page) -> str:
    """Return what stands in the fields of a page, which is not part of its text."""
    return str(
        page.evaluate("[...document.querySelectorAll('input, textarea, option')].map((f) => f.value + f.text).join()")
    )


def test_what_comes_to_life_would_be_seen(browser: Browser, hostile: Populated) -> None:
    context = hostile.open(browser)
    page = context.new_page()
    complaints = watch(page)
    page.goto("/methodology/")
    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.harmed = 1\">')")
    page.wait_for_function("window.violations.length")
    assert page.evaluate(ALIVE)
    assert any("script-src" in one for one in page.evaluate("window.violations"))
    # The policy kept it from running even so.
    assert page.evaluate("window.harmed") is None
    assert complaints
    context.close()


def test_files_are_files(browser: Browser, hostile: Populated) -> None:
    """What holds a text of somebody is not shown as a page, whatever it looks like."""
    context = hostile.open(browser, "alice")
    for name in ("runs:verdict", "runs:source"):
        answer = context.request.get(hostile.pages[name])
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-type"].split(";")[0] in ("application/json", "text/plain")
        assert "attachment" in answer.headers["content-disposition"]
    for path in ("/board.csv", "/board.atom", f"/api/v1/runs/{hostile.pages['runs:source'].split('/')[2]}/"):
        answer = context.request.get(path)
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "html" not in answer.headers["content-type"]
    context.close()
