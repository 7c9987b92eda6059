from __future__ import annotations

import re

import pytest

from portal.catalog.markup import highlight_python, render_markdown, reveal_invisible


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "[x](javascript:alert(1))",
        "![x](https://tracker.example/pixel)",
        '<a href="https://x" onclick="alert(1)">x</a>',
        "<style>body{display:none}</style>",
    ],
)
def test_markdown_runs_and_loads_nothing(text: str) -> None:
    html = render_markdown(text)
    assert not [part for part in ("<script", "<img", "<style", 'href="javascript', "<a href") if part in html]


def test_markdown_is_rendered_one_level_lower() -> None:
    html = render_markdown("# One\n\n- `code`\n\n| a | b |\n|---|---|\n| 1 | 2 |\n")
    assert "<h2>One</h2>" in html
    assert "<code>code</code>" in html
    assert "<td>2</td>" in html


def test_lines_have_anchors() -> None:
    html = highlight_python("import math\nx = 1\n", "line")
    assert '<span id="line-1">' in html
    assert re.search('<span id="line-2">.*x', html)
    assert 'href="#line-2"' in html
    assert 'class="kn"' in html


def test_source_is_escaped() -> None:
    assert "<script>" not in highlight_python("x = '<script>'\n</pre><script>", "line")


def test_a_long_source_is_shown_plain_and_whole() -> None:
    html = highlight_python("x = 1\n" * 20_000, "line")
    assert 'class="mi"' not in html
    assert 'id="line-20000"' in html


@pytest.mark.parametrize("character", ["\u202e", "\u2066", "\u200b", "\ufeff"])
def test_characters_that_deceive_are_written_out(character: str) -> None:
    assert reveal_invisible(f"a{character}b") == f"a⟨U+{ord(character):04X}⟩b"


def test_what_scrolls_can_be_reached_by_keyboard() -> None:
    html = render_markdown("| a |\n| - |\n| 1 |\n\n```\ncode <table>\n```\n")
    assert '<div class="scroller" tabindex="0" role="group" aria-label="Table"><table>' in html
    assert '<pre tabindex="0"><code>code &lt;table&gt;' in html
    assert html.count("<table>") == html.count("</table></div>") == 1
