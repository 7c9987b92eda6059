from __future__ import annotations

import pytest

from portal.standings.failures import FailureGroup, group_failures
from portal.standings.levels import build_level_rows, describe_targets, share_failures
from portal.standings.profiles import build_profile
from tests.portal.standings.tallies import failure, tally
from verifier.verdict import FailureMode

LEVELS = ["L1", "L2"]


def test_levels_without_runs_are_empty() -> None:
    rows = build_level_rows([tally(1, "l1-01", passed=2), tally(1, "l1-02", passed=1), tally(2, "l2-01")], LEVELS)
    assert [(cell.succeeded, cell.rated, cell.tasks) for cell in rows[1]] == [(3, 6, 2), (0, 0, 0)]
    assert rows[1][1].rate is None
    assert rows[2][1].rate is not None


def test_targets_of_a_level() -> None:
    found = describe_targets([1.2, None, 4.0, 2.0])
    assert (found.tasks, found.certified, found.median, found.at_or_above_2x) == (4, 3, 2.0, 2)
    assert describe_targets([None]).median is None


def test_failures_of_a_level_are_shares_of_its_failed_runs() -> None:
    groups = group_failures([failure(1, "L2", FailureMode.UNLOADABLE, 3), failure(2, "L2", FailureMode.INCORRECT, 1)])
    (level,) = share_failures(groups, LEVELS)
    assert (level.level, level.failed) == ("L2", 4)
    assert level.groups[0] == (FailureGroup.DELIVERY, 3, 0.75)
    assert sum(share for _, _, share in level.groups) == pytest.approx(1)


def test_a_profile_cuts_by_level_and_family_and_repeats() -> None:
    own = [
        tally(1, "l1-01", passed=3),
        tally(1, "l1-02", family="scan", passed=1),
        tally(1, "l2-01", runs=1, targeted=1),
    ]
    profile = build_profile(own, own)
    assert [(name, cell.tasks) for name, cell in profile.levels] == [("L1", 2), ("L2", 1)]
    assert [(name, cell.succeeded) for name, cell in profile.families] == [("graph", 3), ("scan", 1)]
    assert [(item.runs, item.tasks, item.histogram) for item in profile.repeatability] == [
        (1, 1, [(0, 1), (1, 0)]), (3, 2, [(0, 0), (1, 1), (2, 0), (3, 1)]),
    ]  # fmt: skip


def test_many_runs_of_a_task_list_only_what_occurs() -> None:
    own = [tally(runs=30, targeted=30, passed=7)]
    assert build_profile(own, own).repeatability[0].histogram == [(7, 1)]
