from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from portal.ops import audit

# As pip-audit writes it.
REPORT = {
    "dependencies": [
        {"name": "django", "version": "5.2.19", "vulns": []},
        {"name": "torch", "version": "2.5.0", "vulns": [{"id": "GHSA-1", "fix_versions": ["2.6.0"], "aliases": []}]},
        {"name": "nh3", "version": "0.2", "vulns": [{"id": "GHSA-2", "fix_versions": []}]},
        {"name": "ours", "skip_reason": "Dependency not found"},
    ],
    "fixes": [],
}


def answer(monkeypatch: pytest.MonkeyPatch, report: object, code: int = 0) -> None:
    """Let every program end with `code`, and say `report`."""

    def call(command: list[str], _seconds: int) -> subprocess.CompletedProcess[str]:
        of_tool = command[0].endswith("pip-audit")
        said = report if isinstance(report, str) else json.dumps(report)
        return subprocess.CompletedProcess(command, code if of_tool else 0, said if of_tool else "", "no network\n")

    monkeypatch.setattr(audit, "call", call)


def test_faults_are_named_with_what_mends_them() -> None:
    assert list(audit.list_faults(REPORT)) == [
        "torch 2.5.0: GHSA-1, fixed in 2.6.0",
        "nh3 0.2: GHSA-2, fixed in no version yet",
        "ours: not audited: Dependency not found",
    ]


def test_a_fault_fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    answer(monkeypatch, REPORT, 1)
    assert audit.main([]) == audit.FAULTS_FOUND
    assert "web: 3 known faults" in capsys.readouterr().out


def test_nothing_found_is_well(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    answer(monkeypatch, {"dependencies": [REPORT["dependencies"][0]]})
    assert audit.main([]) == 0
    assert "web: 0 known faults" in capsys.readouterr().out


def test_faults_of_what_the_benchmark_pins_are_told_and_do_not_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, REPORT, 1)
    monkeypatch.setattr(audit, "DECIDING", ())
    assert audit.main([]) == 0


@pytest.mark.parametrize(("arguments", "code"), [([], 0), (["--strict"], audit.NOT_AUDITED)])
def test_without_a_network_it_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int
) -> None:
    answer(monkeypatch, "", 1)
    assert audit.main(arguments) == code
    assert "Not audited: the database cannot be asked: no network" in capsys.readouterr().err


def test_a_tool_that_cannot_be_installed_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PORTAL_VAR", str(tmp_path))
    monkeypatch.setattr(audit, "ROOT", tmp_path)
    assert audit.main([]) == 0
    assert "pip-audit cannot be installed" in capsys.readouterr().err
