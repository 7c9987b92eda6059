from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.standings.boards import Measure, build_board, build_boards, sort_rows
from portal.standings.counts import Tally, merge_tallies
from portal.standings.statistics import FEWEST_TASKS
from tests.portal.standings.tallies import tally

NAMES = {1: "b", 2: "A", 3: "c"}


def test_it_groups_by_environment() -> None:
    boards = build_boards([tally(environment="l40s"), tally(environment="h200"), tally(2, environment="h200")])
    assert [(board.environment, len(board.rows)) for board in boards] == [("h200", 2), ("l40s", 1)]
    assert build_boards([]) == []


def test_a_rate_has_the_published_interval() -> None:
    row = build_board("h200", [tally(runs=300, targeted=300, passed=201, rejected=99)]).rows[0]
    assert row.rate is not None
    assert (row.succeeded, row.rated, row.rate.percent) == (201, 300, 67.0)
    assert [row.rate.low, row.rate.high] == pytest.approx([61.49, 72.08], abs=0.01)


def test_without_a_target_acceptance_is_measured() -> None:
    board = build_board("h200", [tally(targeted=0, cleared=2), tally(2, targeted=0, cleared=3)])
    assert board.measure is Measure.CLEARED
    assert [row.rate.percent for row in board.rows if row.rate] == pytest.approx([200 / 3, 100])
    assert board.rows[0].capture is None


def test_runs_without_a_target_are_not_counted_as_failed() -> None:
    board = build_board("h200", [tally(passed=3), tally(task="l1-02", targeted=0, cleared=3), tally(2, targeted=0)])
    assert board.measure is Measure.PASSED
    first, second = board.rows
    assert (first.succeeded, first.rated, first.runs) == (3, 3, 6)
    assert second.rate is None
    assert (first.rank.place, second.rank.place) == (1, 2)


def test_a_mean_speedup_weighs_tasks_alike_and_says_its_coverage() -> None:
    tallies = [
        tally(mean_log_speedup=math.log(2)),
        tally(task="l1-02", mean_log_speedup=math.log(8)),
        tally(task="l1-03"),
    ]
    speedup = build_board("h200", tallies).rows[0].speedup
    assert speedup is not None
    assert speedup.mean == pytest.approx(4)
    assert (speedup.covered, speedup.tasks) == (2, 3)
    assert speedup.adjusted == pytest.approx(16 ** (1 / 3))


def test_capture_is_zero_for_rejected_runs() -> None:
    assert build_board("h200", [tally(captured=1.5)]).rows[0].capture == 0.5


def test_solved_tasks_and_rejected_ones_are_counted() -> None:
    row = build_board("h200", [tally(passed=1, rejected_fast=2), tally(task="l1-02", passed=2, rejected_fast=1)]).rows[
        0
    ]
    assert (row.solved_once, row.solved_twice, row.rejected, row.rejected_fast) == (2, 1, 3, 3)


def test_few_tasks_give_no_interval_over_tasks() -> None:
    tasks = [f"l1-{number:02}" for number in range(1, FEWEST_TASKS + 1)]
    few, enough = (
        build_board("h200", [tally(task=task, passed=number % 4) for number, task in enumerate(tasks[:count])]).rows[0]
        for count in (FEWEST_TASKS - 1, FEWEST_TASKS)
    )
    assert few.by_task is None
    assert enough.by_task is not None
    assert enough.by_task.low < enough.succeeded / enough.rated < enough.by_task.high


def test_sorting_puts_the_unknown_last_and_keeps_equal_rows_in_rank_order() -> None:
    rows = build_board(
        "h200",
        [
            tally(1, passed=1, mean_log_speedup=None),
            tally(2, passed=2, mean_log_speedup=math.log(1.234_001)),
            tally(3, passed=3, mean_log_speedup=math.log(1.234_002)),
        ],
    ).rows
    order = {
        sort: [row.system for row in sort_rows(rows, sort, NAMES)] for sort in ("", "speedup", "system", "runs", "x")
    }
    assert order == {"": [3, 2, 1], "speedup": [3, 2, 1], "system": [2, 1, 3], "runs": [3, 2, 1], "x": [3, 2, 1]}


def test_equal_ranks_stand_in_the_order_of_names() -> None:
    rows = build_board("h200", [tally(1, passed=1), tally(2, passed=1), tally(3, passed=1)]).rows
    assert [row.system for row in sort_rows(rows, "", NAMES)] == [2, 1, 3]


# Speeds that are equal once they are rounded for the page among them.
speeds = st.lists(st.none() | st.sampled_from([0.1, 1.0, 1.004, 1.0041, 27.86]) | st.floats(0.01, 100), min_size=1)


@given(speeds)
def test_any_board_is_in_the_order_of_exact_figures_with_the_unknown_last(speeds: list[float | None]) -> None:
    tallies = [
        tally(number, mean_log_speedup=speed and math.log(speed), captured=speed or 0.0)
        for number, speed in enumerate(speeds)
    ]
    rows = build_board("h200", tallies).rows
    names = {number: f"System {number}" for number in range(len(speeds))}
    shown = [row.speedup.mean if row.speedup else None for row in sort_rows(rows, "speedup", names)]
    known = [speed for speed in shown if speed is not None]
    assert known == sorted(known, reverse=True)
    assert shown[len(known) :] == [None] * (len(shown) - len(known))


@given(st.lists(st.tuples(st.integers(0, 2001), st.just(2001)), min_size=2, max_size=8))
def test_what_looks_equal_has_its_place_by_the_exact_rate(rates: list[tuple[int, int]]) -> None:
    # 1340 and 1341 of 2001 are both 67.0 %.
    rates = [*rates, (1340, 2001), (1341, 2001)]
    rows = build_board(
        "h200", [tally(number, runs=runs, targeted=runs, passed=passed) for number, (passed, runs) in enumerate(rates)]
    ).rows
    places = {row.system: row.rank.place for row in rows}
    for one, (passed, _) in enumerate(rates):
        assert places[one] == 1 + sum(other > passed for other, _ in rates)


whole = st.integers(0, 50)


@st.composite
def versions(draw: st.DrawFn) -> Tally:
    """A tally of one version of one task."""
    speedups = draw(whole)
    logarithm = draw(st.floats(-3, 5)) if speedups else None
    return tally(
        runs=draw(whole), passed=draw(whole), clocked=draw(whole), wall_clock_seconds=draw(whole), speedups=speedups,
        mean_log_speedup=logarithm,
    )  # fmt: skip


@given(st.lists(versions(), min_size=1, max_size=6))
def test_versions_of_a_task_add_up_to_one_tally(tallies: list[Tally]) -> None:
    (merged,) = merge_tallies(tallies)
    for name in ("runs", "targeted", "passed", "cleared", "rejected", "speedups", "clocked", "wall_clock_seconds"):
        assert getattr(merged, name) == sum(getattr(one, name) for one in tallies), name
    logarithms = [
        one.mean_log_speedup for one in tallies if one.mean_log_speedup is not None for _ in range(one.speedups)
    ]
    mean = math.fsum(logarithms) / len(logarithms) if logarithms else None
    assert merged.mean_log_speedup == (None if mean is None else pytest.approx(mean, abs=1e-9))
