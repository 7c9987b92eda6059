"""The command line: exit codes, JSON and what it says to people. Verdicts themselves are tried by the conscience."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from verifier import sandbox
from verifier.cli import app
from verifier.exits import Exit
from verifier.sandbox import SandboxUnavailable

runner = CliRunner()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["verify", "l9-99", "solution.py"], Exit.USAGE, "there is no task"),
        (["verify", "l1-09", "absent.py"], Exit.NO_ARTIFACT, "There is no file"),
        (["verify", "l1-09", "x.py", "--environment", "abacus"], Exit.USAGE, "there is no environment"),
        (["schema", "poem"], Exit.USAGE, "there is no schema"),
    ],
)
def test_a_wrong_request_says_what_is_wrong(arguments: list[str], code: Exit, words: str) -> None:
    result = runner.invoke(app, arguments)
    assert result.exit_code == code
    assert words in " ".join(result.output.split())


def test_an_error_is_one_json_object() -> None:
    result = runner.invoke(app, ["verify", "l9-99", "solution.py", "--json"])
    error = json.loads(result.stdout)
    assert (error["ok"], error["exit"]) == (False, Exit.USAGE)
    assert "l1-09" in error["error"]["fix"]


def test_a_file_that_is_no_submission_is_judged_without_a_box(tmp_path: Path) -> None:
    path = tmp_path / "solution.py"
    path.write_bytes(b"\xff\x00")
    result = runner.invoke(app, ["verify", "l1-09", str(path), "--json", "--progress", "none"])
    verdict = json.loads(result.stdout)
    assert result.exit_code == Exit.NO_ARTIFACT
    assert verdict["failures"] == ["ART_BAD_BUNDLE"]
    assert [gate["status"] for gate in verdict["gates"]] == ["failed", "skipped", "skipped", "skipped", "skipped"]


def test_a_host_without_a_sandbox_judges_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> str:
        raise SandboxUnavailable("no walls here")

    monkeypatch.setattr(sandbox, "probe", refuse)
    path = tmp_path / "solution.py"
    path.write_text("x = 1")
    result = runner.invoke(app, ["verify", "l1-09", str(path)])
    assert result.exit_code == Exit.TRANSIENT
    assert "no walls here" in result.output


@pytest.mark.parametrize("name", ["verdict", "task", "environment"])
def test_schemas_are_published(name: str) -> None:
    schema = json.loads(runner.invoke(app, ["schema", name]).stdout)
    assert schema["type"] == "object"
    assert schema["properties"]


def test_the_doctor_names_every_part() -> None:
    result = runner.invoke(app, ["doctor", "--json"])
    report = json.loads(result.stdout)
    assert {finding["name"] for finding in report["findings"]} == {"python", "packages", "sandbox", "disk", "tasks"}
    assert report["ok"] == all(finding["ok"] for finding in report["findings"])
    assert result.exit_code == (Exit.OK if report["ok"] else Exit.TRANSIENT)


def test_tasks_are_listed_shown_and_checked() -> None:
    listed = json.loads(runner.invoke(app, ["task", "list", "--json"]).stdout)
    assert {"l1-01", "l1-09", "l2-01"} <= {task["id"] for task in listed["tasks"]}
    assert "ModelNew" in runner.invoke(app, ["task", "show", "sparsemax-rows"]).stdout
    report = json.loads(runner.invoke(app, ["task", "lint", "--json"]).stdout)
    assert (report["ok"], report["complaints"]) == (True, [])
