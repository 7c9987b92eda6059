"""Tasks in Harbor's format: what is in a package and what never is, its digests, and its verifier run by hand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.verifier.test_workspace import list_telling_lines
from verifier.cli import app
from verifier.environment import load_environment
from verifier.exits import Exit
from verifier.exports import seat
from verifier.exports.digest import compute_digest
from verifier.exports.grade import grade
from verifier.exports.harbor import MANIFEST, ROOT, ExportError, Manifest, export
from verifier.rewards import NoReward
from verifier.task import Task, load_task, load_tasks
from verifier.workspaces.public import ORACLE
from verifier.workspaces.workspace import open_workspace

H200, CPU = load_environment("h200"), load_environment("cpu-interpreter")
TASKS = load_tasks()
FOLDER = "l1-09-sparsemax-rows"


def write(folder: Path, *, official: bool, environment: str = "cpu-interpreter") -> Path:
    """Export l1-09, and return the folder of the task."""
    export([load_task("l1-09")], folder, load_environment(environment), official=official)
    return folder / FOLDER


def read_own(folder: Path) -> str:
    """Return the text of every file of a package but the code of the verifier, which is public."""
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and "verifier" not in path.parts]
    return "\n".join(path.read_text(encoding="utf-8") for path in paths)


@pytest.fixture(scope="module")
def public(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exports") / "public"
    export(TASKS, folder, H200, official=False)
    return folder


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.id)
def test_nothing_hidden_is_in_a_public_package(task: Task, public: Path) -> None:
    place = public / f"{task.id}-{task.specification.slug}"
    text = read_own(place)
    shown = list_telling_lines(text)
    seen = task.reference_source + task.instruction
    own = list_telling_lines(seen + ORACLE)
    for name in ("certified.py", "hidden.py"):
        secret = list_telling_lines((task.path / name).read_text(encoding="utf-8"))
        assert secret & shown - own == set(), name
    hidden = [item for item in task.specification.distributions if not item.visible]
    assert hidden
    assert not [item.name for item in hidden if item.description in text or f'name = "{item.name}"' in text]
    assert not [item.name for item in task.specification.shortcuts if item.name not in seen and item.name in text]
    assert not (place / "solution").exists()


def test_the_code_of_the_verifier_in_a_package_is_what_is_published(public: Path) -> None:
    copies = [
        place / part / "kernelquest" / "verifier" for place in public.glob("l*") for part in ("environment", "tests")
    ]
    assert len(copies) == 2 * len(TASKS)
    files = {path.relative_to(copies[0]) for path in copies[0].rglob("*") if path.is_file()}
    assert Path("judge.py") in files
    assert not [name for name in files if name.suffix != ".py" and not (ROOT / "verifier" / name).is_file()]
    for copy in copies[:2]:
        assert not [name for name in files if (copy / name).read_bytes() != (ROOT / "verifier" / name).read_bytes()]


def test_the_agents_image_is_the_same_in_both_packages_and_only_the_official_verifier_has_the_whole_task(
    tmp_path: Path,
) -> None:
    task = load_task("l1-09")
    official, seen = write(tmp_path / "official", official=True), write(tmp_path / "public", official=False)
    assert compute_files(official / "environment") == compute_files(seen / "environment")
    whole = official / "tests" / "kernelquest" / "tasks" / "l1" / "sparsemax-rows"
    for name in ("hidden.py", "certified.py", "task.toml"):
        assert (whole / name).read_bytes() == (task.path / name).read_bytes()
    assert (official / "solution" / "solution.py").read_bytes() == (task.path / "certified.py").read_bytes()


def compute_files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_task_for_a_gpu_names_it_and_its_verifier_has_no_network(tmp_path: Path) -> None:
    place = write(tmp_path / "out", official=True, environment="h200")
    settings = tomllib.loads((place / "task.toml").read_text())
    verifier = settings["verifier"]
    assert (verifier["environment_mode"], verifier["network_mode"]) == ("separate", "no-network")
    assert (verifier["environment"]["gpus"], verifier["environment"]["gpu_types"]) == (1, ["H200"])
    assert verifier["environment"]["network_mode"] == "no-network"
    assert settings["agent"] == {"timeout_sec": 3600.0, "user": "agent"}
    assert settings["environment"]["gpu_types"] == ["H200"]
    assert settings["metadata"]["inputs"] == "hidden"
    assert settings["metadata"]["certified_target"] > 1
    for name in ("environment", "tests"):
        first = next(line for line in (place / name / "Dockerfile").read_text().splitlines() if line.startswith("FROM"))
        assert first == "FROM python:3.12.11-bookworm"
        assert "--hash=sha256:" in (place / name / "requirements.txt").read_text()


def test_a_package_is_the_same_bytes_every_time_and_its_digests_are_of_them(tmp_path: Path) -> None:
    places = [write(tmp_path / name, official=True) for name in ("one", "two")]
    first, second = (Manifest.model_validate_json((place.parent / MANIFEST).read_bytes()) for place in places)
    assert first == second
    assert first.tasks[0].digest == compute_digest(places[0])
    (places[0] / "tests" / "test.sh").write_text("exit 0\n")
    assert first.tasks[0].digest != compute_digest(places[0])


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("kept")
    with pytest.raises(ExportError, match="nothing is overwritten"):
        export([load_task("l1-09")], tmp_path, CPU, official=False)
    result = CliRunner().invoke(app, ["export", "harbor", str(tmp_path), "l1-09"])
    assert result.exit_code == Exit.USAGE
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_the_command_writes_a_package_and_says_its_digests(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["export", "harbor", str(tmp_path / "out"), "sparsemax-rows", "--json"])
    assert result.exit_code == Exit.OK
    manifest = Manifest.model_validate_json(result.stdout)
    assert [(item.task, item.name) for item in manifest.tasks] == [("l1-09", f"kernelquest/{FOLDER}")]
    assert (manifest.official, manifest.environment) == (False, "h200")


def run_by_hand(place: Path, folder: Path) -> dict[str, float]:
    """Run the script of the verifier as its container would, with places of our own, and return the reward file."""
    home = place / "tests" / "kernelquest"
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(home),
        "PYTHONDONTWRITEBYTECODE": "1",
        "KQ_SOLUTION": str(folder / "submission" / "solution.py"),
        "KQ_OUT": str(folder / "logs"),
    }
    environment.pop("KQ_TASKS", None)
    subprocess.run([place / "tests" / "test.sh"], cwd=folder, env=environment, check=True, timeout=300)
    figures = json.loads((folder / "logs" / "reward.json").read_text())
    assert all(type(value) is float for value in figures.values())
    return dict(figures)


def test_by_hand_the_oracle_is_accepted_and_doing_nothing_earns_nothing(tmp_path: Path) -> None:
    place = write(tmp_path / "package", official=True)
    (tmp_path / "submission").mkdir()
    nothing = run_by_hand(place, tmp_path)
    assert (nothing["reward"], nothing["accepted"], nothing["stage"]) == (0.0, 0.0, 0.0)
    solve = {**os.environ, "KQ_SUBMISSION": str(tmp_path / "submission")}
    subprocess.run([place / "solution" / "solve.sh"], env=solve, check=True)
    oracle = run_by_hand(place, tmp_path)
    assert (oracle["accepted"], oracle["stage"], oracle["reward"]) == (1.0, 5.0, 0.1)
    verdict = json.loads((tmp_path / "logs" / "verdict.json").read_text())
    assert (verdict["task"], verdict["outcome"]) == ("l1-09", "accepted")
    # All five distributions were there, which only the official package has.
    assert len({item["distribution"] for item in verdict["evidence"]["distributions"]}) == 5
    assert not list((place / "tests").rglob("__pycache__"))


def test_no_reward_is_written_when_the_host_fails(tmp_path: Path) -> None:
    (tmp_path / "solution.py").write_text("class ModelNew:\n    pass\n")
    (tmp_path / "reward.json").write_text('{"reward": 1.0}')
    # There is no H200 here.
    with pytest.raises(NoReward):
        grade("l1-09", tmp_path / "solution.py", "h200", tmp_path)
    assert not (tmp_path / "reward.json").exists()


def test_the_hour_begins_with_the_first_command(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    seat.main(["create", "l1-09", str(folder), "h200", "--target", "1.5"])
    made = open_workspace(folder)
    assert made is not None
    assert made.settings.target == 1.5
    later = datetime.now(UTC) + timedelta(days=3)
    assert seat.begin(folder, later)
    assert not seat.begin(folder, later + timedelta(minutes=5))
    begun = open_workspace(folder)
    assert begun is not None
    assert begun.settings.ends_at == later + timedelta(hours=1)
    assert list((folder / "submission").iterdir()) == []
