"""A run on a GPU in a real browser. The verdict is a real one; the steps to it are taken by hand."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import CHROMIUM, Portal, manage

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed: apt-get install chromium")


def work(portal: Portal, step: str) -> str:
    """Take one step as a worker with a GPU and return the run's public id."""
    code = f"from tests.browser.gpu_worker import act; print(act({step!r}))"
    return manage(portal.variables, "shell", "--verbosity", "0", "--command", code).strip()


def test_a_timed_run_is_followed_to_its_speed(page: Page, portal: Portal) -> None:
    page.goto(f"/runs/{work(portal, 'start')}/")
    work(portal, "wait")
    expect(page.get_by_label("What happened so far")).to_contain_text("Waiting for the GPU")
    work(portal, "round")
    expect(page.locator(".gates")).to_contain_text("round 3 of 4 timed")
    expect(page.get_by_label("What happened so far")).not_to_contain_text("Waiting for the GPU")
    work(portal, "finish")
    speed = page.get_by_role("region", name="Speed", exact=True)
    expect(speed).to_contain_text("14.75x against compiled PyTorch")
    expect(page.get_by_role("heading", name="State:")).to_contain_text("Accepted, no target yet")
    expect(speed.get_by_role("row", name="This submission")).to_contain_text("0.08798")
    readings = speed.get_by_text("Empty windows, clock of the judge")
    expect(readings).to_be_hidden()
    speed.get_by_text("Every reading, in milliseconds").click()
    expect(readings).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_timed_run_that_does_not_count_fits_a_small_screen(page: Page, portal: Portal, scheme: str) -> None:
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    page.set_viewport_size({"width": 360, "height": 800})
    work(portal, "start")
    page.goto(f"/runs/{work(portal, 'reject')}/")
    expect(page.get_by_role("region", name="Speed", exact=True)).to_contain_text(
        re.compile(r"Not counted\. The stopwatch said 14\.75x .* PREC_TF32, precision loss")
    )
    page.get_by_text("Every reading, in milliseconds").click()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_timed_run_is_readable_without_scripts(page: Page, portal: Portal) -> None:
    work(portal, "start")
    address = f"/runs/{work(portal, 'finish')}/"
    page.route("**/*.js", lambda route: route.fulfill(body="", content_type="text/javascript"))
    page.goto(address)
    page.get_by_text("Every reading, in milliseconds").click()
    expect(page.get_by_text("Empty windows, clock of the judge")).to_be_visible()


def test_the_form_offers_the_environment_with_a_worker(page: Page, portal: Portal) -> None:
    work(portal, "start")
    work(portal, "finish")
    page.goto("/submit/")
    expect(page.get_by_label("Environment").locator("option", has_text="NVIDIA H200")).to_have_count(1)
