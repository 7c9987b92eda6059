"""The report of the suite: figures of certificates, what is missing, and the medians of each level."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from verifier.certificate import compute_digests
from verifier.cli import app
from verifier.environment import load_environment
from verifier.exits import Exit
from verifier.new_task import write_task
from verifier.suite import ANNOUNCED_MEDIAN_TARGETS, NOT_MEASURED, SuiteReport, report_suite
from verifier.task import TaskError, find_tasks_root, load_task_folder, load_tasks

PUBLISHED = Path(__file__).resolve().parents[2] / "portal" / "standings" / "data" / "published.json"
H200 = load_environment("h200", find_tasks_root())
# The toy moves 3 x 128 MiB and 16 KiB; what it writes beyond the L2 of 50 MiB counts, at 4800 GB/s.
TOY_FLOOR_MS = (3 * 2**27 + 4 * 4096 - 50 * 2**20) / 4.8e12 * 1e3

runner = CliRunner()


def add_task(root: Path, identifier: str, certificate: dict[str, Any] | None = None) -> Path:
    """Write a toy task, and a certificate beside it."""
    values = {"id": identifier, "level": identifier[:2].upper(), "slug": identifier, "title": f"The toy {identifier}"}
    folder = write_task({**values, "family": "toys"}, root)
    if certificate is not None:
        (folder / "certificates").mkdir()
        content = {"schema": "kernelquest.certificate/1", "date": "2026-01-01", **certificate}
        (folder / "certificates" / "h200.json").write_text(json.dumps(content))
    return folder


def make_session(certified: float, **others: float | None) -> dict[str, Any]:
    return {"eager_ms": 4.0, "compiled_ms": 2.0, "certified_ms": certified, "own_share": 0.9, "cv": 0.01, **others}


def report(root: Path) -> SuiteReport:
    return report_suite(load_tasks(root), H200)


def test_figures_are_medians_over_sessions(tmp_path: Path) -> None:
    sessions = [make_session(0.2), make_session(0.1, eager_ms=5.0), make_session(0.4, own_share=None)]
    add_task(tmp_path, "l1-01", {"certified": True, "target": 9.5, "margin": 0.05, "sessions": sessions})
    (row,) = report(tmp_path).tasks
    assert (row.certified, row.reason, row.sessions, row.target, row.margin) == (True, "", 3, 9.5, 0.05)
    assert (row.eager_ms, row.compiled_ms, row.certified_ms, row.own_share) == (4.0, 2.0, 0.2, 0.9)
    assert row.floor_ms == pytest.approx(TOY_FLOOR_MS)
    assert row.floor_share == pytest.approx(TOY_FLOOR_MS / 0.2)


def test_a_task_without_a_certificate_says_so(tmp_path: Path) -> None:
    add_task(tmp_path, "l1-01")
    (row,) = report(tmp_path).tasks
    assert (row.certified, row.reason, row.certified_ms) == (False, NOT_MEASURED, None)
    assert row.floor_ms == pytest.approx(TOY_FLOOR_MS)


def test_a_refused_certification_keeps_its_figures_and_its_reason(tmp_path: Path) -> None:
    refused = {"certified": False, "reason": "slower than compiled PyTorch", "sessions": [make_session(2.5)]}
    add_task(tmp_path, "l1-01", refused)
    (row,) = report(tmp_path).tasks
    assert (row.certified, row.reason, row.certified_ms) == (False, "slower than compiled PyTorch", 2.5)
    assert report(tmp_path).levels[0].median_target is None


def test_a_file_that_changed_since_is_named(tmp_path: Path) -> None:
    folder = add_task(tmp_path, "l1-01")
    (folder / "certificates").mkdir()
    digests = {
        **compute_digests(load_task_folder(folder)),
        "certified.py": hashlib.sha256(b"another").hexdigest(),
        "gone.py": hashlib.sha256(b"").hexdigest(),
    }
    certificate = {"schema": "kernelquest.certificate/1", "target": 2.0, "digests": digests}
    (folder / "certificates" / "h200.json").write_text(json.dumps(certificate))
    (row,) = report(tmp_path).tasks
    assert row.changed == ["certified.py", "gone.py"]


def test_medians_of_a_level_stand_beside_the_announced_ones(tmp_path: Path) -> None:
    for identifier, target in (("l2-01", 2.0), ("l2-02", 4.0), ("l2-03", 3.0)):
        add_task(tmp_path, identifier, {"target": target, "sessions": [make_session(1.0)]})
    add_task(tmp_path, "l2-04", {"certified": False, "reason": "unsteady"})
    levels = {level.level: level for level in report(tmp_path).levels}
    assert list(levels) == ["L1", "L2", "L3", "L4"]
    assert (levels["L2"].tasks, levels["L2"].certified, levels["L2"].median_target) == (4, 3, 3.0)
    assert (levels["L1"].tasks, levels["L1"].median_target) == (0, None)


def test_the_announced_medians_are_those_that_were_published() -> None:
    published = json.loads(PUBLISHED.read_text(encoding="utf-8"))["levels"]
    assert {item["level"]: item["median_target"] for item in published} == ANNOUNCED_MEDIAN_TARGETS


def test_a_malformed_certificate_is_named(tmp_path: Path) -> None:
    add_task(tmp_path, "l1-01", {"target": 2.0, "sessions": [{"eager_ms": "fast", "certified_ms": 1.0}]})
    with pytest.raises(TaskError, match=r"h200\.json: sessions\.0\.eager_ms"):
        report(tmp_path)


def test_the_command_prints_a_table_and_a_report_of_its_schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "environments").symlink_to(find_tasks_root() / "environments")
    add_task(tmp_path, "l3-07", {"target": 2.25, "margin": 0.05, "sessions": [make_session(0.8125)]})
    add_task(tmp_path, "l4-08", {"certified": False, "reason": "unsteady", "sessions": [make_session(0.5)]})
    monkeypatch.setenv("KQ_TASKS", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "60")
    result = runner.invoke(app, ["suite", "report"])
    assert result.exit_code == Exit.OK
    rows = {line.split()[0]: line for line in result.output.splitlines() if line.strip()}
    assert rows["l3-07"].split()[3:7] == ["4.000", "2.000", "0.812", "2.25"]
    assert "not certified: unsteady" in rows["l4-08"]
    assert rows["L4"].split() == ["L4", "1", "0", "-", "1.47"]
    found = json.loads(runner.invoke(app, ["suite", "report", "--json"]).stdout)
    schema = json.loads(runner.invoke(app, ["schema", "suite"]).stdout)
    assert set(found) == set(schema["properties"])
