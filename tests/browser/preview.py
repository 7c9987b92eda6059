"""Draw the picture that a link to the board shows, and that of the README: `python -m tests.browser.preview ADDRESS`.

It needs a running portal and Chromium, and writes static/preview.png and docs/images/board.png. Both hold published
figures only.
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
  source.textContent = "As published in the KernelQuest announcement, on one NVIDIA L40S.";
  main.replaceChildren(...["h1", ".headline", "[data-chart=pass-rates]"].map((part) => main.querySelector(part)), source);
  document.querySelectorAll(".masthead__nav, .masthead__account, .colophon").forEach((part) => part.remove());
}"""


def draw_pictures(address: str, preview: Path, board: Path) -> None:
    """Write two pictures of the board at `address`: what a link shows, and the upper part of the page."""
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=sandbox)
        page = browser.new_page(viewport={"width": SIZE[0], "height": SIZE[1]}, color_scheme="light")
        page.goto(address)
        page.locator("[data-chart=pass-rates] .main-svg").first.wait_for()
        page.set_viewport_size({"width": 1200, "height": 1480})
        page.screenshot(path=board)
        page.set_viewport_size({"width": SIZE[0], "height": SIZE[1]})
        page.evaluate(COMPOSE)
        page.screenshot(path=preview)
        browser.close()


if __name__ == "__main__":
    draw_pictures(sys.argv[1], ROOT / "static" / "preview.png", ROOT / "docs" / "images" / "board.png")
