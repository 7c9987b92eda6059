"""The order of a board in words: who leads, and where the order is not settled. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from portal.standings.statistics import Rank

# More names than these are no sentence.
MOST_NAMED = 5


def list_names(names: Sequence[str]) -> str:
    """Return names as a list in words; the last of many are only counted."""
    if len(names) > MOST_NAMED:
        names = [*names[: MOST_NAMED - 1], f"{len(names) - MOST_NAMED + 1} more"]
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]


def group_unsettled(ranked: Iterable[tuple[str, Rank]]) -> list[list[str]]:
    """Return the systems in the order of their places, those together whose places reach into each other's."""
    groups: list[list[str]] = []
    reached = 0
    for name, rank in sorted(ranked, key=lambda one: (one[1].place, one[1].best)):
        if not groups or rank.best > reached:
            groups.append([])
        groups[-1].append(name)
        reached = max(reached, rank.worst)
    return groups


def describe_order(ranked: Sequence[tuple[str, Rank]]) -> tuple[str, str]:
    """Return who leads and how sure that is, and what is to be said of the others; empty where there is nothing to say."""
    if len(ranked) < 2:  # noqa: PLR2004  one has no order
        return "", ""
    leading = [name for name, rank in sorted(ranked, key=lambda one: one[1].place) if rank.best == 1]
    if len(leading) == 1:
        lead = f"{leading[0]} leads, and that is settled."
    else:
        lead = f"The lead is not settled between {list_names(leading)}."
    others = [group for group in group_unsettled(ranked) if len(group) > 1 and not set(group) & set(leading)]
    return lead, " ".join(f"Of {list_names(group)} no full order is settled." for group in others)
