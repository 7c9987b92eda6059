from __future__ import annotations

import pytest

from portal.standings.order import describe_order, group_unsettled
from portal.standings.published import build_rows, load_snapshot, rank_published
from portal.standings.statistics import Rank


def test_the_published_order_is_told_as_far_as_it_is_settled() -> None:
    snapshot = load_snapshot()
    ranks = rank_published(snapshot)
    assert describe_order(ranks) == (
        "Claude Opus 5 leads, and that is settled.",
        "Of GPT-5.6 Sol, Gemini 3.7 Flash and Grok 4.5 no full order is settled.",
    )
    assert {name for name, _ in ranks} == {row.system for row in build_rows(snapshot)}


@pytest.mark.parametrize(
    ("ranked", "groups"),
    [
        ([], []),
        ([("a", Rank(1, 1, 1))], [["a"]]),
        ([("b", Rank(2, 2, 2)), ("a", Rank(1, 1, 1))], [["a"], ["b"]]),
        ([("a", Rank(1, 1, 2)), ("b", Rank(1, 2, 2)), ("c", Rank(3, 3, 3))], [["a", "b"], ["c"]]),
        # What joins two systems may be a third between them.
        ([("a", Rank(1, 1, 2)), ("b", Rank(1, 2, 3)), ("c", Rank(2, 3, 3))], [["a", "b", "c"]]),
        ([("a", Rank(1, 1, 1)), ("b", Rank(2, 2, 3)), ("c", Rank(2, 2, 3))], [["a"], ["b", "c"]]),
    ],
)
def test_systems_whose_places_reach_into_each_other_stand_together(
    ranked: list[tuple[str, Rank]], groups: list[list[str]]
) -> None:
    assert group_unsettled(ranked) == groups


def test_nothing_is_said_of_one_system_alone() -> None:
    assert describe_order([("a", Rank(1, 1, 1))]) == ("", "")
    assert describe_order([]) == ("", "")


def test_many_systems_are_counted() -> None:
    ranked = [(f"s{number}", Rank(1, number, 9)) for number in range(1, 10)]
    assert describe_order(ranked) == ("The lead is not settled between s1, s2, s3, s4 and 5 more.", "")


def test_only_those_who_may_be_first_are_said_to_lead() -> None:
    ranked = [
        ("a", Rank(1, 1, 2)),
        ("b", Rank(1, 2, 3)),
        ("c", Rank(2, 3, 3)),
        ("d", Rank(4, 4, 5)),
        ("e", Rank(4, 5, 5)),
    ]
    assert describe_order(ranked) == (
        "The lead is not settled between a and b.", "Of d and e no full order is settled.",
    )  # fmt: skip
