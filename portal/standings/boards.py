"""The board of runs that this installation judged, one table an environment."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

from portal.catalog.models import Environment
from portal.standings.charts import Rate
from portal.standings.models import Standing
from portal.standings.statistics import wilson_interval
from verifier.verdict import FailureMode


@dataclass(frozen=True)
class StandingRow:
    """One standing with the share of its runs that cleared every gate before performance."""

    standing: Standing
    cleared: int
    rate: Rate
    failures: list[tuple[FailureMode, int]]


@dataclass(frozen=True)
class Board:
    """The standings of one environment."""

    environment: Environment
    rows: list[StandingRow]


def build_standing_row(standing: Standing) -> StandingRow:
    """Return the row of one standing. Its interval is the 95 % Wilson interval over runs."""
    cleared = standing.passed + standing.accepted + standing.below_target
    low, high = wilson_interval(cleared, standing.runs)
    rate = Rate(standing.system.name, 100 * cleared / standing.runs, 100 * low, 100 * high)
    modes = [(FailureMode(mode), count) for mode, count in standing.failure_modes.items()]
    return StandingRow(standing, cleared, rate, sorted(modes, key=lambda pair: -pair[1]))


def build_boards(standings: Iterable[Standing]) -> list[Board]:
    """Return one board for each environment with judged runs; `standings` come ordered by environment."""
    judged = (standing for standing in standings if standing.runs)
    groups = groupby(judged, key=lambda standing: standing.environment)
    return [Board(environment, [build_standing_row(standing) for standing in group]) for environment, group in groups]
