"""The whole path in a real browser: sign in, upload, watch, read the verdict, with server and worker as in the demo."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from portal.runs.sample_solutions import FOLDER
from tests.browser.conftest import CHROMIUM

VERDICT_SECONDS = 240

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed: apt-get install chromium")


def choose(page: Page, task: str, sample: str) -> None:
    page.goto("/submit/")
    page.get_by_label("Task").select_option(task)
    page.get_by_label("System").select_option(label="Sample solutions")
    page.get_by_label("Solution file").set_input_files(FOLDER / f"{sample}.py")
    expect(page.get_by_label("Checks before upload").get_by_text("is UTF-8 text")).to_be_visible()


def watch(page: Page, words: str) -> None:
    """Wait, without a reload, until the run page shows `words` as its state."""
    page.evaluate("document.documentElement.dataset.loaded = 'once'")
    state = page.get_by_role("heading", name="State:")
    expect(state).to_contain_text(words, timeout=VERDICT_SECONDS * 1000)
    expect(page.locator("html")).to_have_attribute("data-loaded", "once")


@pytest.mark.parametrize(
    ("sample", "task", "state", "code"),
    [
        ("honest", "l1-09", "Accepted, not timed here", None),
        ("constant", "l1-09", "Rejected", "STALE_CONSTANT"),
        ("tf32", "l2-01", "Rejected", "PREC_TF32"),
        ("unloadable", "l1-09", "Rejected", "ART_"),
    ],
)
def test_a_sample_gets_its_verdict(page: Page, sample: str, task: str, state: str, code: str | None) -> None:
    choose(page, task, sample)
    page.get_by_role("button", name="Submit the run").click()
    expect(page).to_have_url(re.compile("/runs/[0-9a-f-]{36}/$"))
    watch(page, state)
    expect(page.locator("#announcement")).to_contain_text("Finished")
    for gate in ("Intake", "Structural", "Correctness", "Policy", "Performance"):
        expect(page.get_by_role("heading", name=gate, exact=True)).to_be_visible()
    if code:
        expect(page.locator(".failure-code").first).to_contain_text(code)
    with page.expect_download() as download:
        page.get_by_role("link", name="Download the verdict as JSON").click()
    verdict = json.loads(Path(download.value.path()).read_text())
    assert verdict["task"] == task
    assert verdict["outcome"] == ("accepted" if code is None else "rejected")


def test_the_board_counts_what_was_judged(page: Page) -> None:
    page.goto("/")
    expect(page.locator(".chart .main-svg").first).to_be_visible()
    standings = page.get_by_role("table", name="Standings in CPU interpreter")
    expect(standings.get_by_role("row", name="Sample solutions")).to_be_visible()


def test_a_file_that_will_be_refused_is_stopped_in_the_page(page: Page, tmp_path: Path) -> None:
    page.goto("/submit/")
    for name, content, words in (
        ("solution.txt", b"x = 1\n", "does not hold: solution.txt is the name of one .py file"),
        ("binary.py", b"\x7fELF\0\0", "does not hold: has no NUL bytes"),
        ("latin.py", b"x = '\xe9'\n", "does not hold: is UTF-8 text"),
        ("large.py", b"#" * (256 * 1024 + 1), "does not hold: 262,145 bytes, at most 262,144"),
        ("empty.py", b"", "does not hold: is not empty"),
    ):
        path = tmp_path / name
        path.write_bytes(content)
        page.get_by_label("Solution file").set_input_files(path)
        expect(page.get_by_label("Checks before upload")).to_contain_text(words)
        expect(page.get_by_role("button", name="Submit the run")).to_be_disabled()


DROP = """async (box, text) => {
  const files = new DataTransfer();
  files.items.add(new File([text], "solution.py"));
  box.dispatchEvent(new DragEvent("drop", { dataTransfer: files, bubbles: true, cancelable: true }));
}"""


def test_a_dropped_file_is_submitted(page: Page) -> None:
    page.goto("/submit/")
    page.get_by_label("Task").select_option("l1-09")
    page.locator("[data-drop]").evaluate(DROP, "class ModelNew: dropped = True\n")
    checks = page.get_by_label("Checks before upload")
    expect(checks).to_contain_text("solution.py is the name of one .py file")
    expect(checks).to_contain_text("does not seem to hold: uses @triton.jit")
    page.get_by_role("button", name="Submit the run").click()
    expect(page.get_by_role("region", name="Source")).to_contain_text("dropped = True")
    page.get_by_role("button", name="Cancel the run").click()
    expect(page.get_by_text("was cancelled").or_(page.get_by_text("asked to stop"))).to_be_visible()


def test_markup_in_a_submission_does_not_run(page: Page) -> None:
    page.goto("/submit/")
    page.get_by_label("Task").select_option("l1-09")
    page.get_by_label("Or its text").fill(
        "print('<img src=x onerror=alert(1)>')\nraise ValueError('<script>alert(2)</script>')\n"
    )
    page.on("dialog", lambda dialog: pytest.fail(f"a dialog opened: {dialog.message}"))
    page.get_by_role("button", name="Submit the run").click()
    watch(page, "Rejected")
    expect(page.locator("#report img, #report script")).to_have_count(0)
    expect(page.locator("#report")).to_contain_text("<img src=x onerror=alert(1)>")


def test_pages_fit_a_small_screen(page: Page) -> None:
    page.set_viewport_size({"width": 360, "height": 800})
    for path in (
        "/", "/levels/", "/failures/", "/compare/", "/spotlight/attention/", "/tasks/",
        "/tasks/attn-softplus-bias-softmin/", "/submit/", "/runs/", "/contract/", "/methodology/",
    ):  # fmt: skip
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path


def test_the_keyboard_reaches_the_content_first(page: Page) -> None:
    page.goto("/tasks/")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
