"""A workspace: what is in it and what is not, its budget, its attempts, and the commands an agent uses there."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from verifier.bundle import BundleError
from verifier.cli import app
from verifier.exits import Exit
from verifier.modules import load_task_modules
from verifier.oracle import compare_all
from verifier.task import Task, load_task, load_tasks
from verifier.workspaces.public import ORACLE, select_visible, write_public_task
from verifier.workspaces.workspace import Workspace, WorkspaceError, create, open_workspace

TESTS = Path(__file__).resolve().parents[1]
HONEST, EXPLOITS = TESTS / "honest", TESTS / "exploits"
TASKS = load_tasks()
# Shorter lines are the same in any two files.
SHORTEST_TELLING_LINE = 24
SOLUTION = b"class ModelNew:\n    pass\n"


def make(folder: Path, name: str = "l1-09", hours: float = 1.0) -> Workspace:
    return create(load_task(name), folder, "cpu-interpreter", None, hours)


def read_all(folder: Path) -> str:
    """Return the text of every file in a workspace."""
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*")) if path.is_file())


def list_telling_lines(text: str) -> set[str]:
    return {line for line in map(str.strip, text.splitlines()) if len(line) >= SHORTEST_TELLING_LINE}


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.id)
def test_nothing_hidden_is_in_a_workspace(task: Task, tmp_path: Path) -> None:
    create(task, tmp_path / "work", "h200", None)
    text = read_all(tmp_path / "work")
    shown = list_telling_lines(text)
    public = task.reference_source + task.instruction
    own = list_telling_lines(public + ORACLE)
    for name in ("certified.py", "hidden.py"):
        secret = list_telling_lines((task.path / name).read_text(encoding="utf-8"))
        assert secret & shown - own == set(), name
    hidden = [item for item in task.specification.distributions if not item.visible]
    assert hidden
    assert not [item.description for item in hidden if item.description in text]
    assert not [item.name for item in hidden if f'name = "{item.name}"' in text]
    # An instruction may forbid a shortcut by its name.
    shortcuts = {item.name for item in task.specification.shortcuts if item.name not in public}
    assert not [name for name in shortcuts if name in text]


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.id)
def test_the_visible_oracle_agrees_with_the_benchmarks(task: Task, tmp_path: Path) -> None:
    modules = load_task_modules(task)
    public = load_task_modules(write_public_task(task, tmp_path))
    dims = task.specification.dims.small
    torch.manual_seed(0)
    state = modules.reference.Model(*modules.get_init_inputs(dims)).eval().state_dict()
    name = task.specification.distributions[0].name
    inputs = public.generate(name, dims, torch.Generator().manual_seed(3))
    found, expected = (item.compute_oracle(inputs, dict(state), dims) for item in (public, modules))
    # References in fp16 keep their own rounding.
    allowed = 0.01 if task.specification.dtype == "fp32" else 0.5
    assert compare_all(list(found), expected, task.specification.tolerance).budget_ratio <= allowed


def test_the_visible_part_of_a_specification_keeps_what_is_measured() -> None:
    text = (
        '# a comment\nid = "l1-09"\n[tolerance]\nwhy = "keys near 100 are rounded"\natol = 1e-4\n\n'
        '[[distributions]]\nname = "plain"\nvisible = true\n\n[[distributions]]\nname = "odd"\nvisible = false\n\n'
        '[[shortcuts]]\nname = "zeros"\nexposed_by = "odd"\n'
    )
    assert select_visible(text) == (
        'id = "l1-09"\n[tolerance]\nwhy = "as the instruction says"\natol = 1e-4\n\n'
        '[[distributions]]\nname = "plain"\nvisible = true\n\n'
    )


def test_a_workspace_begins_without_an_artifact(tmp_path: Path) -> None:
    workspace = make(tmp_path / "work")
    assert list((tmp_path / "work" / "submission").iterdir()) == []
    assert not workspace.artifact.exists()
    assert (workspace.task.id, workspace.list_attempts()) == ("l1-09", [])
    found = open_workspace(tmp_path / "work" / "submission")
    assert found is not None
    assert found.settings == workspace.settings
    assert open_workspace(tmp_path) is None


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("kept")
    with pytest.raises(WorkspaceError, match="nothing is overwritten"):
        make(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_damaged_workspace_is_named(tmp_path: Path) -> None:
    make(tmp_path / "work")
    (tmp_path / "work" / ".kq" / "workspace.json").write_text("{")
    with pytest.raises(WorkspaceError, match="is damaged"):
        open_workspace(tmp_path / "work")


def test_the_last_submission_is_the_artifact_and_all_are_kept(tmp_path: Path) -> None:
    workspace = make(tmp_path / "work")
    first, second = (workspace.submit(SOLUTION + note.encode(), note) for note in ("#1", "#2"))
    assert workspace.artifact.read_bytes() == SOLUTION + b"#2"
    assert [(item.number, item.note) for item in workspace.list_attempts()] == [(1, "#1"), (2, "#2")]
    assert (workspace.folder / first.file).read_bytes() == SOLUTION + b"#1"
    assert first.sha256 != second.sha256
    assert [path.name for path in workspace.artifact.parent.iterdir()] == ["solution.py"]


def test_what_is_no_submission_changes_nothing(tmp_path: Path) -> None:
    workspace = make(tmp_path / "work")
    workspace.submit(SOLUTION)
    with pytest.raises(BundleError):
        workspace.submit(b"\xff")
    assert workspace.artifact.read_bytes() == SOLUTION
    assert len(workspace.list_attempts()) == 1


def test_after_the_time_nothing_is_taken(tmp_path: Path) -> None:
    workspace = make(tmp_path / "work")
    workspace.submit(SOLUTION)
    over = Workspace(
        workspace.folder, workspace.settings.model_copy(update={"ends_at": datetime.now(UTC) - timedelta(seconds=1)})
    )
    assert over.measure_left() == timedelta()
    with pytest.raises(WorkspaceError, match="the time was over"):
        over.submit(SOLUTION + b"#late")
    assert over.artifact.read_bytes() == SOLUTION


def test_a_line_that_is_still_being_written_is_left_out(tmp_path: Path) -> None:
    workspace = make(tmp_path / "work")
    workspace.submit(SOLUTION)
    with (workspace.state / "attempts.jsonl").open("a") as file:
        file.write('{"number": 2')
    assert [item.number for item in workspace.list_attempts()] == [1]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace for l1-09, as the current folder."""
    make(tmp_path / "work")
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.delenv("KQ_PORTAL", raising=False)
    return tmp_path / "work"


def run(*command: str) -> tuple[int, dict[str, Any]]:
    """Return the exit code of a command and the one object that it prints for programs."""
    result = CliRunner().invoke(app, [*command, "--json"])
    return result.exit_code, json.loads(result.stdout)


def test_an_agent_goes_from_a_check_to_a_submission(place: Path) -> None:
    (place / "solution.py").write_bytes((HONEST / "l1_09_plain.py").read_bytes())
    code, checked = run("check")
    assert (code, checked["outcome"], checked["failures"], checked["inputs"]) == (Exit.OK, "accepted", [], "visible")
    code, attempt = run("submit", "solution.py", "--note", "the plain way")
    assert (code, attempt["number"], attempt["note"]) == (Exit.OK, 1, "the plain way")
    code, history = run("history")
    assert code == Exit.OK
    (row,) = history["attempts"]
    assert row["check"]["outcome"] == "accepted"
    code, reward = run("reward")
    assert (code, reward["estimate"], reward["reward"]) == (Exit.OK, True, None)
    code, status = run("workspace", "status")
    assert (code, status["attempts"], status["artifact"]) == (Exit.OK, 1, True)
    assert 0 < status["seconds_left"] <= 3600


def test_what_a_gate_rejects_is_submitted_only_on_purpose(place: Path) -> None:
    (place / "wrong.py").write_bytes((EXPLOITS / "softmax_instead.py").read_bytes())
    code, refused = run("submit", "wrong.py")
    assert (code, refused["ok"]) == (Exit.CORRECTNESS, False)
    assert not (place / "submission" / "solution.py").exists()
    code, _ = run("reward")
    assert code == Exit.NO_ARTIFACT
    code, attempt = run("submit", "wrong.py", "--skip-check")
    assert (code, attempt["number"]) == (Exit.OK, 1)
    code, reward = run("reward")
    assert (code, reward["reward"]) == (Exit.OK, 0.06)


def test_a_profile_names_what_ran(place: Path) -> None:
    code, reference = run("profile")
    assert code == Exit.OK
    assert reference["subject"] == "the reference, eager"
    assert any("sort" in row["name"] for row in reference["rows"])
    (place / "solution.py").write_bytes((HONEST / "l1_09_plain.py").read_bytes())
    code, mine = run("profile", "solution.py")
    assert code == Exit.OK
    assert [(row["own"], row["share"]) for row in mine["rows"]] == [(True, 1.0)]


def test_outside_a_workspace_the_way_to_one_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for command in (["history"], ["check", "x.py"], ["reward"], ["workspace", "status"], ["profile"]):
        result = CliRunner().invoke(app, command)
        assert result.exit_code == Exit.USAGE, command
        assert "kq workspace create" in result.output
