"""A new task works as it is written, and nothing is overwritten."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from verifier.cli import app
from verifier.environment import load_environment
from verifier.exits import Exit
from verifier.judge import verify
from verifier.lint import lint_task
from verifier.new_task import write_task
from verifier.task import REQUIRED_FILES, TaskError, load_task_folder
from verifier.verdict import Outcome

VALUES = {"id": "l2-42", "slug": "scaled-sum", "title": "A scaled sum", "level": "L2", "family": "norm-chain"}

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "adding-a-task.md"

runner = CliRunner()


def test_a_new_task_is_sound(tmp_path: Path) -> None:
    task = load_task_folder(write_task(VALUES, tmp_path))
    assert task.path == tmp_path / "l2" / "scaled-sum"
    assert lint_task(task) == []
    found = {key: getattr(task.specification, key) for key in VALUES}
    assert found == VALUES
    assert task.instruction.startswith("# A scaled sum\n")


def test_the_certified_solution_of_a_new_task_is_accepted(tmp_path: Path) -> None:
    task = load_task_folder(write_task(VALUES, tmp_path))
    verdict = verify(task, (task.path / "certified.py").read_bytes(), load_environment("cpu-interpreter"))
    assert verdict.outcome is Outcome.ACCEPTED, (verdict.failures, verdict.evidence.error)


def test_a_title_may_hold_any_sign(tmp_path: Path) -> None:
    title = 'A "scaled" sum: y = x + s · z \\ \U0001d6fc'
    task = load_task_folder(write_task({**VALUES, "title": title}, tmp_path))
    assert task.specification.title == title


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    folder = write_task(VALUES, tmp_path)
    (folder / "reference.py").write_text("mine")
    with pytest.raises(TaskError, match="nothing is overwritten"):
        write_task({**VALUES, "id": "l2-43"}, tmp_path)
    assert (folder / "reference.py").read_text() == "mine"
    assert sorted(path.name for path in folder.iterdir()) == sorted(REQUIRED_FILES)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"slug": "another"}, "l2-42 is also the id of"),
        ({"id": "l2-43", "slug": "../up"}, "slug: String should match pattern"),
        ({"id": "l1-43", "slug": "another"}, "id l1-43 does not belong to level L2"),
        ({"id": "l2-43", "slug": "another", "title": "\x7f" * 9}, "a value cannot stand in TOML"),
    ],
)
def test_values_that_do_not_fit_write_nothing(change: dict[str, str], words: str, tmp_path: Path) -> None:
    write_task(VALUES, tmp_path)
    with pytest.raises(TaskError) as raised:
        write_task({**VALUES, **change}, tmp_path)
    assert words in str(raised.value)
    assert [path.name for path in (tmp_path / "l2").iterdir()] == ["scaled-sum"]


def test_the_command_takes_the_level_from_the_id(tmp_path: Path) -> None:
    arguments = ["task", "new", "l3-42", "mine", "--family", "moe", "--title", "Mine alone", "--root", str(tmp_path)]
    made = runner.invoke(app, [*arguments, "--json"])
    assert made.exit_code == Exit.OK
    folder = Path(json.loads(made.stdout)["folder"])
    assert load_task_folder(folder).specification.level == "L3"
    again = runner.invoke(app, arguments)
    assert again.exit_code == Exit.USAGE
    assert "docs/adding-a-task.md" in again.output


def test_one_task_is_checked_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KQ_TASKS", str(tmp_path))
    sound = write_task(VALUES, tmp_path)
    broken = write_task({**VALUES, "id": "l2-43", "slug": "broken"}, tmp_path)
    (broken / "hidden.py").write_text("raise OSError('no oracle')")
    result = runner.invoke(app, ["task", "lint", sound.name, "--json"])
    assert (result.exit_code, json.loads(result.stdout)["tasks"]) == (Exit.OK, ["l2-42"])
    report = json.loads(runner.invoke(app, ["task", "lint", "l2-42", "l2-43", "--json"]).stdout)
    assert (report["ok"], report["tasks"]) == (False, ["l2-42"])
    assert "does not load" in report["complaints"][0]["reason"]


def test_every_command_and_option_of_the_guide_exists() -> None:
    lines = re.findall(r"^kq ([^#\n]+)", GUIDE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(lines) > 8
    # With --help a command that exists, with options that exist, does nothing else.
    wrong = [line for line in lines if runner.invoke(app, [*shlex.split(line), "--help"]).exit_code != Exit.OK]
    assert wrong == []
