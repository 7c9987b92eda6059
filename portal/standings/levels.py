"""How systems do at each level. Pure functions of tallies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from portal.standings.boards import Measure, build_rate, choose_measure
from portal.standings.charts import Rate
from portal.standings.counts import Tally
from portal.standings.failures import FailureGroup


@dataclass(frozen=True)
class LevelCell:
    """What one system achieved at one level, or in one family."""

    succeeded: int
    rated: int
    tasks: int
    rate: Rate | None


@dataclass(frozen=True)
class LevelTargets:
    """The certified targets of one level in one environment."""

    tasks: int
    certified: int
    median: float | None
    at_or_above_2x: int


@dataclass(frozen=True)
class LevelFailures:
    """The failed runs of one level by group, with shares."""

    level: str
    failed: int
    groups: list[tuple[FailureGroup, int, float]]


def build_cell(tallies: Iterable[Tally], measure: Measure) -> LevelCell:
    """Return the rate over some tallies of one system."""
    own = list(tallies)
    succeeded, rated = sum(map(measure.count_succeeded, own)), sum(map(measure.count_rated, own))
    return LevelCell(succeeded, rated, len(own), build_rate(succeeded, rated))


def build_level_rows(tallies: Sequence[Tally], levels: Sequence[str]) -> dict[int, list[LevelCell]]:
    """Return for each system one cell a level."""
    measure = choose_measure(tallies)
    cells: dict[tuple[int, str], list[Tally]] = {}
    for tally in tallies:
        cells.setdefault((tally.system, tally.level), []).append(tally)
    systems = dict.fromkeys(tally.system for tally in tallies)
    return {system: [build_cell(cells.get((system, level), []), measure) for level in levels] for system in systems}


def describe_targets(targets: Sequence[float | None]) -> LevelTargets:
    """Return what the targets of a level's tasks add up to; None stands for a task without one."""
    certified = [target for target in targets if target is not None]
    return LevelTargets(
        len(targets),
        len(certified),
        median(certified) if certified else None,
        sum(target >= 2 for target in certified),  # noqa: PLR2004
    )


def share_failures(groups: Mapping[str, Mapping[FailureGroup, int]], levels: Sequence[str]) -> list[LevelFailures]:
    """Return the failed runs of each level with failures by group, as shares of that level's failed runs."""
    found = []
    for level in levels:
        counts = groups.get(level, {})
        failed = sum(counts.values())
        if failed:
            shares = [(group, counts[group], counts[group] / failed) for group in FailureGroup]
            found.append(LevelFailures(level, failed, shares))
    return found
