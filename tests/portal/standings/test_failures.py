from __future__ import annotations

import pytest

from portal.standings.failures import GROUPS, Column, FailureGroup, build_failure_table, choose_shade, group_failures
from portal.standings.selection import Selection
from tests.portal.standings.tallies import failure, tally
from verifier.verdict import FailureMode

COLUMNS = [Column(1, "One", {"system": "one"}), Column(2, "Two", {"system": "two"})]
FAILURES = [
    failure(1, "L1", FailureMode.PRECISION_LOSS, 3),
    failure(1, "L2", FailureMode.PRECISION_LOSS, 1),
    failure(1, "L2", FailureMode.STALE_OUTPUT, 4),
    failure(2, "L1", FailureMode.BELOW_TARGET, 2),
]
TABLE = build_failure_table(
    FAILURES,
    [tally(1, rejected_fast=5), tally(2, rejected_fast=0)],
    COLUMNS,
    lambda count: count.system,
    Selection("h200"),
)


def test_modes_that_occur_stand_in_the_verifiers_order() -> None:
    modes = [FailureMode.STALE_OUTPUT, FailureMode.PRECISION_LOSS, FailureMode.BELOW_TARGET]
    assert [mode for mode, _ in TABLE.rows] == modes


def test_cells_add_up_to_their_column_and_their_row() -> None:
    for index, (label, failed) in enumerate(TABLE.failed):
        assert sum(cells[index][1].runs for _, cells in TABLE.rows) == failed.runs, label
    for _, cells in TABLE.rows:
        assert sum(cell.runs for _, cell in cells[:-1]) == cells[-1][1].runs
    assert [(label, failed.runs) for label, failed in TABLE.failed] == [("One", 8), ("Two", 2), ("All", 10)]
    assert TABLE.failed[0][1].query.endswith("system=one&failed=on")


def test_shares_are_of_the_failed_runs_of_the_column() -> None:
    precision = dict(TABLE.rows[1][1])
    assert (precision["One"].share, precision["All"].share) == (0.5, 0.4)


def test_every_cell_links_to_its_runs() -> None:
    precision = dict(TABLE.rows[1][1])
    assert precision["One"].query == "counted=on&environment=h200&system=one&mode=precision_loss"
    assert precision["All"].query == "counted=on&environment=h200&mode=precision_loss"


def test_the_rejected_fast_are_counted_by_column() -> None:
    assert [(label, cell.runs) for label, cell in TABLE.fast] == [("One", 5), ("Two", 0), ("All", 5)]
    assert TABLE.fast[0][1].query.endswith("system=one&fast=on")


def test_nothing_failed() -> None:
    table = build_failure_table([], [tally(passed=3)], COLUMNS, lambda count: count.system, Selection())
    assert table.rows == []
    assert table.fast[-1][1].share is None


@pytest.mark.parametrize(
    ("share", "shade"), [(None, 0), (0.0, 0), (0.01, 1), (0.05, 1), (0.06, 2), (0.31, 4), (1.0, 5)]
)
def test_the_tint_grows_with_the_share(share: float | None, shade: int) -> None:
    assert choose_shade(share) == shade


def test_every_mode_that_a_verdict_can_have_is_in_a_group() -> None:
    assert set(GROUPS) == set(FailureMode) - {FailureMode.INFRASTRUCTURE}


def test_levels_are_grouped() -> None:
    assert group_failures(FAILURES)["L2"] == {
        FailureGroup.DELIVERY: 0, FailureGroup.ARITHMETIC: 5, FailureGroup.SPEED: 0,
    }  # fmt: skip
