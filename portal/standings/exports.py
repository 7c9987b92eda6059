"""A board as a table of plain values, for CSV, JSON and a feed. The same rows in the same order as the page."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from portal.standings.boards import Board, Row
from portal.standings.order import describe_order
from portal.standings.published import Figure, PublishedRow
from portal.systems.models import System

Value = str | int | float | None
# A spreadsheet takes a text that begins so for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True)
class ShownBoard:
    """A board with its rows in the order of the page."""

    board: Board
    title: str
    timed: bool
    rows: list[tuple[System, Row]]

    @property
    def order(self) -> tuple[str, str]:
        """Who leads and how sure that is, and what is not settled of the others, in words."""
        ranked = [(system.name, row.rank) for system, row in self.rows]
        return describe_order(ranked) if self.board.claims_order else ("", "")


def build_record(
    shown: ShownBoard, system: System, row: Row, release: str, latest: datetime | None
) -> dict[str, Value]:
    """Return one row of a board; shares are in percent, and what is unknown is None.

    `release` is the one whose tasks alone are counted, or empty; `latest` is when the last verdict came in.
    """
    rate, speed = row.rate, row.speedup
    return {
        "environment": shown.board.environment,
        "rank": row.rank.place,
        "rank_best": row.rank.best,
        "rank_worst": row.rank.worst,
        "system": system.slug,
        "name": system.name,
        "scaffold": str(system.scaffold) if system.scaffold else None,
        "measure": shown.board.measure.value.lower(),
        "rate_percent": rate.percent if rate else None,
        "rate_low_percent": rate.low if rate else None,
        "rate_high_percent": rate.high if rate else None,
        "rate_by_task_low_percent": 100 * row.by_task.low if row.by_task else None,
        "rate_by_task_high_percent": 100 * row.by_task.high if row.by_task else None,
        "runs": row.runs,
        "runs_rated": row.rated,
        "runs_succeeded": row.succeeded,
        "runs_rejected": row.rejected,
        "runs_rejected_at_or_above_target": row.rejected_fast,
        "tasks": row.tasks,
        "tasks_solved_once": row.solved_once,
        "tasks_solved_twice": row.solved_twice,
        "geometric_mean_speedup": speed.mean if speed else None,
        "speedup_low": row.speedup_interval.low if speed and row.speedup_interval else None,
        "speedup_high": row.speedup_interval.high if speed and row.speedup_interval else None,
        "tasks_covered": speed.covered if speed else 0,
        "coverage_adjusted_speedup": speed.adjusted if speed else None,
        "mean_capture_percent": None if row.capture is None else 100 * row.capture,
        "mean_wall_clock_seconds": row.wall_clock_seconds,
        "runs_with_wall_clock": row.clocked,
        "release": release or None,
        "latest_verdict": latest.isoformat() if latest else None,
    }


def build_records(
    boards: Iterable[ShownBoard], release: str, latest: Mapping[tuple[str, int], datetime]
) -> list[dict[str, Value]]:
    """Return the rows of all boards, one after another; `latest` is by environment and system."""
    return [
        build_record(shown, system, row, release, latest.get((shown.board.environment, row.system)))
        for shown in boards
        for system, row in shown.rows
    ]


def build_published_records(rows: Iterable[PublishedRow]) -> list[dict[str, Value]]:
    """Return the rows of the published board: each figure as it is shown, with where it comes from beside it."""
    records = []
    for row in rows:
        record: dict[str, Value] = {"system": row.system, "scaffold": row.scaffold}
        for name, figure in vars(row).items():
            if isinstance(figure, Figure):
                record |= {name: figure.text, f"{name}_provenance": figure.provenance.value}
        records.append(record)
    return records


def _write_cell(value: Value) -> Value:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def write_csv(records: Iterable[dict[str, Value]]) -> str:
    """Return `records` as CSV with a header; texts that a spreadsheet would run begin with an apostrophe."""
    output = io.StringIO()
    writer: csv.DictWriter[str] | None = None
    for record in records:
        if writer is None:
            writer = csv.DictWriter(output, list(record))
            writer.writeheader()
        writer.writerow({name: _write_cell(value) for name, value in record.items()})
    return output.getvalue()
