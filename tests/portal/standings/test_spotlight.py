from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from portal.standings.spotlight import PATH, list_recorded_environments, load_archetypes, load_published
from tests.portal.factories import build_verdict
from verifier.verdict import FailureCode, Outcome

INDEX = """
schema = "kernelquest.recorded/1"
task = "l2-01"
[[submission]]
name = "honest"
file = "honest.py"
archetype = "IEEE fp32 kernel"
published = "accepted: slow"
expected = ""
[[submission]]
name = "cheat"
file = "cheat.py"
archetype = "tensor-core dot"
published = "rejected: fast"
expected = "PREC_TF32"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "index.toml").write_text(INDEX)
    return tmp_path


def record(folder: Path, name: str, **given: Any) -> None:
    path = folder / "verdicts" / "h200" / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(build_verdict("l2-01", "h200", **given).to_json())


def test_the_published_runs_add_up() -> None:
    published = load_published()
    assert (published.total, published.timed, published.passed) == (12, 11, 1)
    assert (published.target, published.slowest) == (1.63, 1.70)
    assert sum(runs.count for runs in published.runs if "precision loss" in runs.labels) == 8
    # Ten rejected timed runs carry eleven labels. One more stability shortcut is among the others.
    assert sum(runs.count * (not runs.passed) for runs in published.runs if runs.timed) == 10
    assert all(runs.speedup is None or runs.speedup >= published.slowest for runs in published.runs)


def test_a_malformed_snapshot_is_refused(tmp_path: Path) -> None:
    body = json.loads(PATH.read_text())
    body["runs"][0]["invented"] = 1
    path = tmp_path / "spotlight.json"
    path.write_text(json.dumps(body))
    with pytest.raises(ValidationError, match="invented"):
        load_published(path)


def test_the_projects_own_index_can_be_read() -> None:
    archetypes = load_archetypes(None)
    assert len(archetypes) == load_published().total
    assert all(item.verdict is None and item.agrees is None for item in archetypes)


def test_nothing_is_there_without_an_index(tmp_path: Path) -> None:
    assert load_archetypes("h200", tmp_path) == []
    assert list_recorded_environments(tmp_path) == []


def test_verdicts_are_compared_with_what_was_expected(folder: Path) -> None:
    record(folder, "honest", outcome=Outcome.BELOW_TARGET, failures=[FailureCode.PERF_BELOW_TARGET], speedup=1.5)
    record(folder, "cheat", outcome=Outcome.REJECTED, failures=[FailureCode.STALE_CONSTANT], measured_speedup=3.0)
    honest, cheat = load_archetypes("h200", folder)
    assert list_recorded_environments(folder) == ["h200"]
    assert honest.agrees is True
    assert cheat.agrees is False
    assert cheat.verdict is not None
    assert cheat.verdict.measured_speedup == 3.0


def test_a_verdict_for_something_else_is_none(folder: Path) -> None:
    record(folder, "honest", outcome=Outcome.INFRASTRUCTURE, failures=[FailureCode.INFRA_GPU_FAULT])
    path = folder / "verdicts" / "h200" / "cheat.json"
    path.write_text(build_verdict("l1-09", "h200").to_json())
    assert [item.verdict for item in load_archetypes("h200", folder)] == [None, None]
