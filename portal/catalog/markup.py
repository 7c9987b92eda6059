"""Turn Markdown and Python source into HTML that is safe to show, whatever is in it."""

from __future__ import annotations

import re
from functools import lru_cache

import nh3
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers import PythonLexer, TextLexer

_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")
_MARKDOWN_TAGS = {
    "a", "blockquote", "br", "code", "em", "h2", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre", "strong",
    "table", "tbody", "td", "th", "thead", "tr", "ul",
}  # fmt: skip
# What may be wider than a phone is scrolled, so the keyboard has to reach it. In cleaned HTML these are tags only.
_REACHABLE = {
    "<pre>": '<pre tabindex="0">',
    "<table>": '<div class="scroller" tabindex="0" role="group" aria-label="Table"><table>',
    "</table>": "</table></div>",
}
# Characters that reorder or hide text: code that shows them reads differently from what runs.
_INVISIBLE = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
# Lexing is not linear on hostile text, so long files are shown plain.
_HIGHLIGHT_CAP = 64 * 1024


def render_markdown(text: str) -> SafeString:
    """Return `text` as HTML, its headings one level lower, with nothing in it that runs or loads."""
    tokens = _MARKDOWN.parse(text)
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(int(token.tag[1]) + 1, 6)}"
    html = _MARKDOWN.renderer.render(tokens, _MARKDOWN.options, {})
    clean = nh3.clean(html, tags=_MARKDOWN_TAGS, attributes={"a": {"href"}}, url_schemes={"https", "http"})
    for bare, reachable in _REACHABLE.items():
        clean = clean.replace(bare, reachable)
    return mark_safe(clean)  # noqa: S308


def reveal_invisible(text: str) -> str:
    """Return `text` with characters that reorder or hide text written out."""
    return _INVISIBLE.sub(lambda match: f"\u27e8U+{ord(match[0]):04X}\u27e9", text)


def _choose_lexer(source: str) -> Lexer:
    # Blank lines at the beginning stay, so that lines have the numbers that they have in the file.
    return PythonLexer(stripnl=False) if len(source) <= _HIGHLIGHT_CAP else TextLexer(stripnl=False)


@lru_cache(maxsize=64)
def highlight_python(source: str, anchors: str = "", marked: frozenset[int] = frozenset()) -> SafeString:
    """Return `source` as HTML with CSS classes; with `anchors`, numbered lines with ids such as ``line-12``.

    The id is that of the whole line, so that a line that a link leads to can be marked. So are the lines in `marked`.
    """
    formatter = HtmlFormatter(
        linenos="table" if anchors else False,
        linespans=anchors,
        anchorlinenos=bool(anchors),
        wrapcode=True,
        hl_lines=sorted(marked),
    )
    return mark_safe(highlight(reveal_invisible(source), _choose_lexer(source), formatter))  # noqa: S308


def highlight_lines(source: str) -> list[SafeString]:
    """Return each line of `source` as HTML with CSS classes."""
    lines = highlight(reveal_invisible(source), _choose_lexer(source), HtmlFormatter(nowrap=True)).split("\n")
    return [mark_safe(line) for line in lines[:-1]]  # noqa: S308


def split_lines(source: str) -> list[str]:
    """Return the lines of `source` as they are highlighted: only line feeds and carriage returns end one."""
    return re.split("\r\n|\r|\n", source.removesuffix("\n"))
