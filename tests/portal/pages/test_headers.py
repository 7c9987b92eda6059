"""What every page has in common."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.conf import settings

from tests.conftest import Submit
from tests.portal.pages.conftest import Finish, Visit

PAGES = [
    "/",
    "/tasks/",
    "/tasks/sparsemax-rows/",
    "/runs/",
    "/runs/RUN/",
    "/runs/RUN/status/",
    "/submit/",
    "/methodology/",
]
OTHERS = ["/sign-in/", "/no-such-page/", "/healthz/live", "/runs/RUN/verdict.json", "/submit/samples/honest.py"]
TEMPLATES = sorted(Path(settings.BASE_DIR, "templates").rglob("*.html"))


@pytest.mark.parametrize("path", PAGES + OTHERS)
def test_every_answer_has_the_strict_policy(visit: Visit, submit: Submit, finish: Finish, path: str) -> None:
    run = finish(submit(visibility="public"))
    client = visit("anonymous" if path == "/sign-in/" else "alice")
    response = client.get(path.replace("RUN", str(run.public_id)))
    response.close()
    headers = response.headers
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy + ";"
    assert "unsafe" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "DENY"


@pytest.mark.parametrize("path", PAGES[:5] + PAGES[6:] + OTHERS[:2])
def test_every_page_has_its_landmarks(visit: Visit, submit: Submit, finish: Finish, path: str) -> None:
    run = finish(submit(visibility="public"))
    client = visit("anonymous" if path == "/sign-in/" else "alice")
    page = client.get(path.replace("RUN", str(run.public_id))).content.decode()
    assert page.count("<h1>") == 1
    assert '<a class="skip-link" href="#content">' in page
    assert '<main class="page" id="content"' in page
    assert '<html lang="en">' in page
    identifiers = re.findall(r'\sid="([^"]+)"', page)
    assert len(identifiers) == len(set(identifiers))
    for table in re.findall(r"<table.*?</table>", page, re.DOTALL):
        if "highlighttable" not in table and "<caption" not in table:
            assert '<section class="prose" aria-label="Instruction">' in page


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_no_template_has_inline_script_or_style(template: Path) -> None:
    text = template.read_text()
    assert not re.search(r"<style|\sstyle=|\son[a-z]+=|javascript:", text)
    assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", text))
    assert "|safe" not in text
    assert "autoescape off" not in text
