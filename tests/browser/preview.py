"""Draw the picture that a link to the board shows, and those of the README: `python -m tests.browser.preview ADDRESS RUN`.

It needs Chromium and a portal that runs without PORTAL_DEBUG, with the public run of the sample that computes in TF32,
which RUN is the id of. It writes static/preview.png, docs/images/board.png and docs/images/run-page.png. The first two
hold published figures only.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

from tests.browser.conftest import CHROMIUM, ROOT

SIZE = (1200, 630)
# Only what a preview has room for, in the order in which it is read.
COMPOSE = """() => {
  const main = document.querySelector("main");
  const source = document.createElement("p");
  const story = main.querySelector(".story .headline").textContent;
  source.textContent = `${story} As published in the KernelQuest announcement, on one NVIDIA L40S.`;
  main.replaceChildren(...["h1", ".headline", "[data-chart=pass-rates]"].map((part) => main.querySelector(part)), source);
  document.querySelectorAll(".masthead__nav, .subnav, .masthead__account, .colophon").forEach((part) => part.remove());
}"""


def draw_pictures(address: str, run: str, preview: Path, board: Path, run_page: Path) -> None:
    """Write pictures of the board at `address`, what a link shows and the upper part of the page, and of a run."""
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=sandbox)
        page = browser.new_page(viewport={"width": 1200, "height": 1700}, color_scheme="light")
        page.goto(f"{address}/runs/{run}/")
        page.screenshot(path=run_page)
        page.goto(address)
        page.locator("[data-chart=pass-rates] .main-svg").first.wait_for()
        page.set_viewport_size({"width": 1200, "height": 1480})
        page.screenshot(path=board)
        page.set_viewport_size({"width": SIZE[0], "height": SIZE[1]})
        page.evaluate(COMPOSE)
        page.screenshot(path=preview)
        browser.close()


if __name__ == "__main__":
    images = ROOT / "docs" / "images"
    portal, sample = sys.argv[1:]
    draw_pictures(portal, sample, ROOT / "static" / "preview.png", images / "board.png", images / "run-page.png")
