from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from portal.standings.published import (
    PATH,
    Provenance,
    PublishedRow,
    PublishedSystem,
    build_failure_rows,
    build_rows,
    build_segments,
    load_snapshot,
)
from verifier.verdict import FailureMode

SNAPSHOT = load_snapshot()
ROWS = build_rows(SNAPSHOT)


@pytest.mark.parametrize(
    ("row", "texts"),
    [
        (ROWS[0], ["Claude Opus 5", "67.0 %", "[61.5, 72.1]", "201 of 300", "45"]),
        (ROWS[1], ["GPT-5.6 Sol", "26.0 %", "[21.4, 31.2]", "78 of 300", "10"]),
        (ROWS[2], ["Gemini 3.7 Flash", "20.7 %", "[16.5, 25.6]", "62 of 300", "5"]),
        (ROWS[3], ["Grok 4.5", "15.3 %", "[11.7, 19.8]", "46 of 300", "2"]),
    ],
    ids=lambda value: value.system if isinstance(value, PublishedRow) else "",
)
def test_rows(row: PublishedRow, texts: list[str]) -> None:
    figures = [row.pass_rate, row.interval, row.passed, row.tasks_solved_always]
    assert [row.system, *(figure.text for figure in figures)] == texts
    assert [figure.provenance for figure in figures] == [Provenance.STATED] + 3 * [Provenance.DERIVED]


def test_places_are_settled_only_where_intervals_do_not_meet() -> None:
    assert [(row.rank.text, row.rank.provenance) for row in ROWS] == [
        (text, Provenance.DERIVED) for text in ("1", "2 to 3", "2 to 4", "3 to 4")
    ]


def test_mean_speedups_are_adjusted_for_coverage() -> None:
    assert [row.adjusted_speedup.text for row in ROWS] == ["2.86x", "1.82x", "1.51x", "1.73x"]


@pytest.mark.parametrize("system", SNAPSHOT.systems, ids=lambda system: system.system)
def test_the_derived_interval_has_the_stated_half_width(system: PublishedSystem) -> None:
    row = next(row for row in ROWS if row.system == system.system)
    assert round((row.high_percent - row.low_percent) / 2, 1) == system.half_width_percent


def test_the_passed_runs_add_up() -> None:
    runs = SNAPSHOT.runs
    assert sum(system.count_passed(runs.per_system) for system in SNAPSHOT.systems) == runs.passed == 387
    assert runs.rejected + runs.below_target == runs.non_passing
    assert runs.stopwatch_wins == 557


def test_levels_add_up() -> None:
    assert sum(level.tasks for level in SNAPSHOT.levels) == SNAPSHOT.tasks
    assert sum(level.tasks_at_or_above_2x for level in SNAPSHOT.levels) == 45


def test_segments_fill_the_bar() -> None:
    segments = build_segments(SNAPSHOT.runs)
    assert [segment.runs for segment in segments] == [387, 248, 395, 170]
    assert sum(segment.runs for segment in segments) == 1200
    assert segments[-1].start_percent + segments[-1].width_percent == pytest.approx(100, abs=0.01)


def test_failures_are_stated_derived_or_unknown() -> None:
    cells = {row.mode: dict(row.cells) for row in build_failure_rows(SNAPSHOT)}
    below = cells[FailureMode.BELOW_TARGET]["Claude Opus 5"]
    assert (below.text, below.provenance) == ("44", Provenance.DERIVED)
    unloadable = cells[FailureMode.UNLOADABLE]["GPT-5.6 Sol"]
    assert (unloadable.text, unloadable.provenance) == ("57", Provenance.DERIVED)
    stale = cells[FailureMode.STALE_OUTPUT]["Gemini 3.7 Flash"]
    assert (stale.text, stale.provenance) == ("98", Provenance.STATED)
    unknown = cells[FailureMode.STALE_OUTPUT]["Grok 4.5"]
    assert (unknown.text, unknown.provenance) == ("not published", Provenance.UNKNOWN)


def test_a_malformed_snapshot_is_refused(tmp_path: Path) -> None:
    body = json.loads(PATH.read_text())
    body["systems"][0]["invented"] = 1
    path = tmp_path / "published.json"
    path.write_text(json.dumps(body))
    with pytest.raises(ValidationError, match="invented"):
        load_snapshot(path)
