"""The public pages in a real browser, on invented runs: charts, filters, keyboard, no script."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import CHROMIUM, ROOT, Portal

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed: apt-get install chromium")

PAGES = [
    "/", "/levels/", "/failures/", "/compare/?systems=invented-1&systems=invented-2", "/systems/invented-1/",
    "/spotlight/attention/", "/systems/", "/tasks/", "/tasks/sparsemax-rows/", "/contract/", "/methodology/", "/style/",
]  # fmt: skip
# Words of a chart that reach beyond it, where they are cut.
LIST_CUT_WORDS = """() => [...document.querySelectorAll("[data-chart]")].flatMap((chart) => {
  const room = chart.getBoundingClientRect();
  return [...chart.querySelectorAll(".main-svg text")].filter((text) => {
    const place = text.getBoundingClientRect();
    return place.width && (place.left < room.left - 1 || place.right > room.right + 1);
  }).map((text) => text.textContent);
})"""


@pytest.fixture(scope="module", autouse=True)
def _populated(portal: Portal) -> None:
    command = [sys.executable, "-m", "tests.portal.population", "240", "4"]
    subprocess.run(command, env=portal.variables, cwd=ROOT, check=True, timeout=120)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_pages_fit_and_their_charts_are_drawn(page: Page, scheme: str, width: int) -> None:
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    page.set_viewport_size({"width": width, "height": 900})
    for path in PAGES:
        page.goto(path)
        for chart in page.locator("[data-chart]").all():
            expect(chart.locator(".main-svg").first).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
        assert page.evaluate(LIST_CUT_WORDS) == [], path


def test_a_dark_page_is_printed_light_and_as_wide_as_the_paper(page: Page) -> None:
    page.emulate_media(color_scheme="dark")
    page.goto("/")
    words = page.locator("[data-chart] .main-svg text").first
    expect(words).to_be_visible()
    on_screen = words.evaluate("text => getComputedStyle(text).fill")
    page.set_viewport_size({"width": 718, "height": 1000})
    page.emulate_media(media="print")
    expect(words).to_be_visible()
    expect(words).not_to_have_css("fill", on_screen)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_every_chart_has_a_table_without_script(browser: Browser, portal: Portal) -> None:
    context = browser.new_context(base_url=portal.address, java_script_enabled=False)
    page = context.new_page()
    for path in PAGES[:6]:
        page.goto(path)
        expect(page.locator("[data-chart]:visible")).to_have_count(0)
        expect(page.get_by_role("table").first).to_be_visible()
    page.goto("/?sort=speedup")
    expect(page.locator("table[id^=table-] thead [aria-current]").first).to_contain_text("Geo-mean speedup")
    context.close()


def test_filters_stand_in_the_address_and_in_the_form(page: Page) -> None:
    page.goto("/")
    page.get_by_label("Level").select_option("L2")
    page.get_by_role("button", name="Show").click()
    expect(page).to_have_url(re.compile("level=L2"))
    expect(page.get_by_label("Level")).to_have_value("L2")
    expect(page.get_by_role("table", name="Standings in NVIDIA H200")).to_contain_text("(L2)")
    page.get_by_role("link", name="Runs", exact=True).last.click()
    expect(page.get_by_label("Level")).to_have_value("L2")
    expect(page).to_have_url(re.compile("sort=runs"))


def test_a_figure_leads_to_its_runs(page: Page) -> None:
    page.goto("/failures/?environment=h200")
    cell = page.get_by_role("table").nth(1).locator("tbody tr").first.get_by_role("link").nth(1)
    count = cell.inner_text()
    cell.click()
    expect(page.get_by_text(re.compile(rf"Page 1 of \d+, {count} runs?$"))).to_be_visible()


def test_systems_are_chosen_with_the_keyboard(page: Page) -> None:
    page.goto("/compare/")
    for name in ("Invented system 1", "Invented system 2"):
        page.get_by_label(name).focus()
        page.keyboard.press("Space")
    page.get_by_role("button", name="Compare").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Pairs in NVIDIA H200")).to_be_visible()


def test_a_line_of_the_source_is_marked(page: Page) -> None:
    page.goto("/tasks/attn-softplus-bias-softmin/#reference-2")
    marked = page.locator("#reference-2")
    assert marked.evaluate("line => getComputedStyle(line).backgroundColor") != "rgba(0, 0, 0, 0)"
