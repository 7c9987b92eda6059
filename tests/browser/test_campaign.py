"""A folder becomes a campaign in a real browser, whatever happens to the connection; and the submit page beside it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, Route, expect

from tests.browser.conftest import CHROMIUM, Portal

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed: apt-get install chromium")
RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}
TASKS = ("l1-01", "l1-09", "l2-01")


def write_folder(root: Path, mark: str) -> Path:
    """Write nine solutions of three tasks, and what is none."""
    for task in TASKS:
        for number in (1, 2, 3):
            path = root / task / f"{number}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"class ModelNew: what = '{mark} {task} {number}'\n", encoding="utf-8")
    (root / "README.md").write_text("Notes.")
    return root


@pytest.fixture
def tolerant(page: Page) -> Page:
    """A page of somebody who has signed in, whose console may tell of requests that fail."""
    return page.context.new_page()


def begin(page: Page, title: str) -> None:
    page.goto("/submit/")
    page.get_by_role("link", name="Submit a whole folder of solutions").click()
    page.get_by_label("System").select_option(label="Hand-written kernels")
    page.get_by_label("Title").fill(title)
    page.get_by_label("Only me").check()
    page.get_by_role("button", name="Go on to the files").click()
    expect(page.get_by_role("heading", name=title)).to_be_visible()


def expect_no_fault(page: Page) -> None:
    """See that axe finds nothing, in either scheme, and that the page fits a small screen."""
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        found = [violation["id"] for violation in Axe().run(page, None, RULES).response["violations"]]
        assert found == [], f"{page.url} {scheme}"
    size = page.viewport_size
    page.set_viewport_size({"width": 360, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), page.url
    if size:
        page.set_viewport_size(size)


def test_a_folder_is_looked_at_mended_and_submitted(page: Page, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "night", "mended")
    (folder / "helpers.py").write_text("x = 1\n")
    (folder / "l1-09" / "3.py").write_bytes(b"#" * 300_000)
    begin(page, "Mended")
    expect_no_fault(page)
    page.get_by_label("A whole folder").set_input_files(folder)
    preview = page.get_by_role("region", name="Files of the draft")
    expect(preview).to_contain_text("9 files for 3 tasks. Nothing is submitted yet.")
    expect(page.get_by_text("night/l1-09/3.py: The file has more than 262,144 bytes")).to_be_visible()
    expect(preview.get_by_role("row", name="night/helpers.py")).to_contain_text("No part of the name is a task")
    expect(page.get_by_role("button", name="Submit 9 runs")).to_have_count(0)
    expect_no_fault(page)
    page.get_by_role("button", name="Remove the files with a problem").click()
    page.get_by_role("button", name="Submit 8 runs").click()
    expect(page.get_by_text("of 8 runs judged")).to_be_visible()
    expect_no_fault(page)
    page.goto("/campaigns/")
    expect(page.get_by_role("row", name="Mended")).to_contain_text("8 runs")
    expect_no_fault(page)


def test_a_connection_lost_in_the_middle_loses_nothing(tolerant: Page, tmp_path: Path) -> None:
    page = tolerant
    folder = write_folder(tmp_path / "night", "lost")
    begin(page, "Lost")
    sent: list[str] = []

    def cut(route: Route) -> None:
        name = (route.request.post_data_json or {}).get("name", "") if route.request.method == "POST" else ""
        if name:
            sent.append(name)
        if len(sent) > 4:
            route.abort()
        else:
            route.continue_()

    page.clock.install()
    page.route("**/api/v1/campaigns/*/files/", cut)
    page.get_by_label("A whole folder").set_input_files(folder)
    # The pauses before it gives up.
    for _ in range(12):
        page.clock.run_for(5000)
        page.wait_for_timeout(50)
    expect(page.get_by_text(re.compile(r"^The connection was lost\. 5 of 9 files were not sent"))).to_have_count(2)
    page.unroute("**/api/v1/campaigns/*/files/")
    # The same draft in another tab has what arrived.
    other = page.context.new_page()
    other.goto(page.url)
    expect(other.get_by_text("4 files for")).to_be_visible()
    other.get_by_label("A whole folder").set_input_files(folder)
    expect(other.get_by_text("9 files for 3 tasks")).to_be_visible()
    again: list[str] = []
    page.on("request", lambda request: again.append(request.method) if request.url.endswith("/files/") else None)
    page.get_by_role("button", name="Send the rest again").click()
    expect(page.get_by_text("9 files for 3 tasks")).to_be_visible()
    # What the other tab had sent was recognised by its digest.
    assert again == ["GET"]
    other.get_by_role("button", name="Submit 9 runs").click()
    expect(other.get_by_text("of 9 runs judged")).to_be_visible()
    page.get_by_role("button", name="Submit 9 runs").click()
    expect(page.get_by_text("This campaign was submitted at")).to_be_visible()
    other.close()


def test_whoever_is_signed_out_in_the_middle_is_told_what_to_do(tolerant: Page, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "night", "signed out")
    begin(tolerant, "Signed out")
    tolerant.context.clear_cookies()
    tolerant.get_by_label("A whole folder").set_input_files(folder)
    told = tolerant.locator("[data-words]")
    expect(told).to_contain_text("You are signed out. Sign in again, come back to this draft")
    expect(told).to_contain_text("9 of 9 files were not sent")


DROP = """(box) => {
  const files = new DataTransfer();
  for (const [name, text] of [["l1-09_rep1.py", "class ModelNew: dropped = 1\\n"], ["all.zip", "PK"]]) {
    files.items.add(new File([text], name));
  }
  box.dispatchEvent(new DragEvent("drop", { dataTransfer: files, bubbles: true, cancelable: true }));
}"""


def test_dropped_files_are_taken_and_an_archive_is_explained(page: Page) -> None:
    begin(page, "Dropped")
    page.locator("[data-drop]").evaluate(DROP)
    expect(page.get_by_text("1 file for 1 task.")).to_be_visible()
    expect(page.get_by_text("all.zip: Archives are not taken. Unpack it, and choose the folder.")).to_be_visible()
    page.get_by_role("button", name="Discard the draft").click()
    expect(page.get_by_text("The draft was discarded.")).to_be_visible()


def test_a_dropped_folder_is_walked(page: Page, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "night", "walked")
    begin(page, "Walked")
    box = page.locator("[data-drop]").bounding_box()
    assert box
    session = page.context.new_cdp_session(page)
    place = {"x": box["x"] + 20, "y": box["y"] + 20}
    data = {"items": [], "files": [str(folder)], "dragOperationsMask": 1}
    for kind in ("dragEnter", "dragOver", "drop"):
        session.send("Input.dispatchDragEvent", {"type": kind, "data": data, **place})
    preview = page.get_by_role("region", name="Files of the draft")
    expect(preview).to_contain_text("9 files for 3 tasks")
    expect(preview.get_by_role("row", name="night/l1-09/2.py")).to_be_visible()


def test_without_script_files_are_added_all_the_same(browser: Browser, portal: Portal, page: Page) -> None:
    state = page.context.storage_state()
    context = browser.new_context(base_url=portal.address, java_script_enabled=False, storage_state=state)
    plain = context.new_page()
    begin(plain, "Plain")
    expect(plain.get_by_label("A whole folder")).to_be_hidden()
    plain.get_by_label("Single files").set_input_files(
        {"name": "l1-09_rep2.py", "mimeType": "text/x-python", "buffer": b"class ModelNew: plain = 2\n"}
    )
    plain.get_by_role("button", name="Add to the draft").click()
    plain.get_by_role("button", name="Submit 1 run").click()
    expect(plain.get_by_text("of 1 run judged")).to_be_visible()
    plain.goto("/submit/")
    expect(plain.get_by_label("Or its text")).to_be_visible()
    expect(plain.locator(".editor")).to_have_count(0)
    context.close()


def test_the_editor_numbers_its_lines(page: Page) -> None:
    page.goto("/submit/")
    text = page.get_by_label("Or its text")
    lines = page.locator(".editor__lines")
    expect(lines).to_have_text("1")
    text.fill("a\n" * 80)
    expect(lines).to_have_text(" ".join(map(str, range(1, 82))))
    assert text.evaluate("place => { place.scrollTop = 300; return place.scrollTop }") == 300
    expect(lines).to_have_js_property("scrollTop", 300)
    text.press("Tab")
    expect(page.get_by_label("How long the agent worked, in minutes")).to_be_focused()
    expect_no_fault(page)


def test_the_same_bytes_are_told_with_the_earlier_run(tolerant: Page) -> None:
    page = tolerant
    for _ in range(2):
        page.goto("/submit/")
        page.get_by_label("Task").select_option("l1-09")
        page.get_by_label("System").select_option(label="Hand-written kernels")
        page.get_by_label("Or its text").fill("class ModelNew: twice = True\n")
        page.get_by_role("button", name="Submit the run").click()
    notice = page.get_by_role("alert")
    expect(notice).to_contain_text("The same bytes were submitted for this task and system before: run")
    expect(page.get_by_label("Or its text")).to_have_value("class ModelNew: twice = True\n")
    expect_no_fault(page)
    page.get_by_label("Submit the same bytes again all the same").check()
    page.get_by_role("button", name="Submit the run").click()
    expect(page).to_have_url(re.compile("/runs/[0-9a-f-]{36}/$"))


def test_a_double_click_submits_once(page: Page) -> None:
    page.goto("/submit/")
    page.get_by_label("Task").select_option("l1-09")
    page.get_by_label("Or its text").fill("class ModelNew: clicked = 2\n")
    page.get_by_role("button", name="Submit the run").dblclick()
    expect(page).to_have_url(re.compile("/runs/[0-9a-f-]{36}/$"))


def test_times_are_told_in_the_readers_zone_too(browser: Browser, portal: Portal, page: Page) -> None:
    context = browser.new_context(
        base_url=portal.address, storage_state=page.context.storage_state(), timezone_id="Asia/Tokyo"
    )
    there = context.new_page()
    there.goto("/campaigns/")
    there.get_by_role("link", name="Mended").click()
    expect(there.locator("dd time")).to_contain_text(re.compile(r"UTC \(.* your time\)"))
    context.close()
