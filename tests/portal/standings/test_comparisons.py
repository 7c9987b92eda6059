from __future__ import annotations

import math

import pytest

from portal.standings.comparisons import build_comparison
from tests.portal.standings.tallies import tally

TASKS = [f"l1-{number:02}" for number in range(1, 13)]


def test_a_clear_lead_is_settled() -> None:
    tallies = [tally(1, task, passed=3) for task in TASKS] + [tally(2, task) for task in TASKS]
    pair = build_comparison(tallies, [1, 2]).pairs[0]
    assert pair.paired is not None
    assert (pair.common, pair.paired.difference, pair.paired.won, pair.paired.lost) == (12, 1.0, 12, 0)
    assert pair.is_settled


def test_equal_systems_are_not_told_apart() -> None:
    tallies = [tally(system, task, passed=index % 4) for system in (1, 2) for index, task in enumerate(TASKS)]
    pair = build_comparison(tallies, [1, 2]).pairs[0]
    assert pair.adjusted_p == 1
    assert not pair.is_settled


def test_only_common_tasks_are_paired() -> None:
    tallies = [tally(1, "l1-01", passed=3), tally(1, "l1-02"), tally(2, "l1-02", passed=3), tally(2, "l1-03")]
    comparison = build_comparison(tallies, [2, 1])
    assert comparison.pairs[0].common == 1
    assert comparison.pairs[0].paired is None
    assert [(row.task, row.cells) for row in comparison.tasks] == [
        ("l1-01", [None, (3, 3, None)]), ("l1-02", [(3, 3, None), (0, 3, None)]), ("l1-03", [(0, 3, None), None]),
    ]  # fmt: skip
    assert [row.differs for row in comparison.tasks] == [False, True, False]


def test_a_speedup_ratio_is_over_the_tasks_with_both_speeds() -> None:
    tallies = [
        tally(1, "l1-01", mean_log_speedup=math.log(4)), tally(2, "l1-01", mean_log_speedup=math.log(2)),
        tally(1, "l1-02", mean_log_speedup=math.log(9)), tally(2, "l1-02"),
    ]  # fmt: skip
    pair = build_comparison(tallies, [1, 2]).pairs[0]
    assert pair.speedup_ratio == pytest.approx(2)
    assert pair.speedup_tasks == 1


def test_p_values_are_adjusted_for_all_pairs_of_the_page() -> None:
    tallies = [
        tally(system, task, passed=3 if system == 1 else index % 2)
        for system in (1, 2, 3)
        for index, task in enumerate(TASKS)
    ]
    two, three = (build_comparison(tallies, systems).pairs for systems in ([1, 2], [1, 2, 3]))
    assert [(pair.first, pair.second) for pair in three] == [(1, 2), (1, 3), (2, 3)]
    assert two[0].paired == three[0].paired
    assert two[0].adjusted_p is not None
    assert three[0].adjusted_p == pytest.approx(min(1.0, 3 * two[0].adjusted_p))
