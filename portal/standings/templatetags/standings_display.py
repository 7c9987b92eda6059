"""How ranks and links of a board are written on a page."""

from __future__ import annotations

from collections.abc import Iterable

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from portal.standings.distributions import Distribution
from portal.standings.published import write_rank
from portal.standings.selection import Selection
from portal.standings.statistics import Rank
from verifier.verdict import Outcome

register = template.Library()


@register.filter
def rank(value: Rank) -> str:
    """Write a rank such as 2 to 4, or one number where the place is settled."""
    return write_rank(value)


@register.filter
def runs_of(selection: Selection, environment: str) -> str:
    """Return the address, after the question mark, of the runs that a board of one environment counts."""
    return selection.change(environment=environment).link_runs()


@register.filter
def only(selection: Selection, environment: str) -> str:
    """Return the address, after the question mark, of a selection in one environment, in the usual order."""
    return selection.change(environment=environment, sort="").query


@register.simple_tag
def sort_link(selection: Selection, sort: str, label: str) -> SafeString:
    """Return a link that orders the board by a column, or says that it is ordered so."""
    if selection.sort == sort:
        return format_html('<span aria-current="true">{} <span aria-hidden="true">{}</span></span>', label, "\u25be")
    return format_html('<a href="?{}#verified">{}</a>', selection.change(sort=sort).query, label)


@register.filter
def points(share: float) -> str:
    """Write a difference of shares in points, always with its sign."""
    return f"{100 * share:+.1f}".replace("-", "\u2212")


@register.filter
def probability(value: float) -> str:
    """Write a p-value; below a thousandth only as that."""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"  # noqa: PLR2004


@register.filter
def minutes(seconds: float) -> str:
    """Write a duration in minutes."""
    return f"{seconds / 60:.1f} min"


@register.filter
def edge(speedup: float) -> str:
    """Write the edge of a bin of speedups, such as 1.5x."""
    return f"{speedup:g}x"


@register.filter
def beside(distribution: Distribution, runs: list[int]) -> list[tuple[Outcome, int]]:
    """Return the counts of one row of a distribution, each beside its outcome."""
    return list(zip(distribution.outcomes, runs, strict=True))


@register.filter(name="any")
def has_any(values: Iterable[int]) -> bool:
    """Return whether a value is not 0."""
    return any(values)
