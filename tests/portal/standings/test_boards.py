from __future__ import annotations

import pytest

from portal.catalog.models import Environment
from portal.standings.boards import build_boards
from portal.standings.models import Standing
from portal.systems.models import System
from verifier.verdict import FailureMode


def test_it_groups_by_environment_and_leaves_out_empty_standings() -> None:
    first, second = (Environment(slug=slug, title=slug) for slug in ("l40s", "cpu-interpreter"))
    systems = [System(name=name) for name in "abc"]
    standings = [
        Standing(environment=first, system=systems[0], runs=10, passed=4, below_target=2, rejected=4),
        Standing(environment=first, system=systems[1], runs=0),
        Standing(
            environment=second, system=systems[2], runs=300, accepted=201, rejected=99,
            failure_modes={"precision_loss": 30, "stale_output": 69},
        ),
    ]  # fmt: skip
    boards = build_boards(standings)
    assert [(board.environment, len(board.rows)) for board in boards] == [(first, 1), (second, 1)]
    assert (boards[0].rows[0].cleared, boards[0].rows[0].rate.percent) == (6, 60.0)
    row = boards[1].rows[0]
    assert [row.rate.low, row.rate.high] == pytest.approx([61.49, 72.08], abs=0.01)
    assert row.failures == [(FailureMode.STALE_OUTPUT, 69), (FailureMode.PRECISION_LOSS, 30)]
