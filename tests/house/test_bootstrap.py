"""The set-up from a fresh clone: what it refuses, what it runs, and when it does nothing."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

from portal.ops import bootstrap
from portal.ops.bootstrap import LOCKS, Environment, Interpreter, SetupError

PYTHON_311 = Interpreter("python3.11", (3, 11), has_ensurepip=True)


def write_interpreter(path: Path, answer: str, code: int = 0) -> str:
    """Make a program at `path` that answers the probe with `answer`."""
    path.write_text(f"#!/bin/sh\necho '{answer}'\nexit {code}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a folder with locks like a checkout's."""
    (tmp_path / "requirements").mkdir()
    for name in LOCKS:
        (tmp_path / "requirements" / f"{name}.txt").write_text(f"lock {name}\n", encoding="utf-8")
    (tmp_path / "pyproject.toml").touch()
    return tmp_path


@pytest.fixture
def environment(checkout: Path) -> Environment:
    """Return an environment with a real Python and the stamp of the demo's lock."""
    made = Environment(checkout)
    made.python.parent.mkdir(parents=True)
    made.python.symlink_to(sys.executable)
    version = (sys.version_info.major, sys.version_info.minor)
    made.stamp.write_text(json.dumps(made.describe("demo", version)), encoding="utf-8")
    return made


def test_probe_reads_a_real_interpreter() -> None:
    found = bootstrap.probe_interpreter(sys.executable)
    assert found is not None
    assert found.version == (sys.version_info.major, sys.version_info.minor)
    assert found.is_supported


@pytest.mark.parametrize("answer", ["", "pyenv: command not found", "3 11"])
def test_probe_refuses_what_does_not_answer(tmp_path: Path, answer: str) -> None:
    assert bootstrap.probe_interpreter(write_interpreter(tmp_path / "python3.12", answer)) is None


def test_probe_refuses_what_fails_or_is_missing(tmp_path: Path) -> None:
    assert bootstrap.probe_interpreter(write_interpreter(tmp_path / "python3.12", "3 12 1", code=127)) is None
    assert bootstrap.probe_interpreter(str(tmp_path / "nothing")) is None


def test_too_old_and_too_new_interpreters_are_passed_over(tmp_path: Path) -> None:
    candidates = [
        write_interpreter(tmp_path / name, answer)
        for name, answer in [("old", "3 10 1"), ("new", "3 13 1"), ("good", "3 12 1"), ("later", "3 11 1")]
    ]
    chosen = bootstrap.choose_interpreter(candidates)
    assert chosen is not None
    assert chosen.version == (3, 12)
    assert bootstrap.choose_interpreter(candidates[:2]) is None


def test_no_interpreter_is_refused_with_the_way_out() -> None:
    with pytest.raises(SetupError, match=r"3\.11 or 3\.12.*Triton 3\.1\.0(.|\n)*install uv"):
        bootstrap.plan_creation(None, None, Path(".venv"))


def test_uv_supplies_a_missing_interpreter() -> None:
    assert bootstrap.plan_creation(None, "uv", Path(".venv")) == ["uv", "venv", "--quiet", "--python", "3.12", ".venv"]


def test_missing_ensurepip_names_the_debian_package() -> None:
    with pytest.raises(SetupError, match=r"apt-get install python3\.11-venv"):
        bootstrap.plan_creation(PYTHON_311._replace(has_ensurepip=False), None, Path(".venv"))


def test_missing_ensurepip_does_not_matter_to_uv() -> None:
    command = bootstrap.plan_creation(PYTHON_311._replace(has_ensurepip=False), "uv", Path(".venv"))
    assert command == ["uv", "venv", "--quiet", "--python", "python3.11", ".venv"]


@pytest.mark.parametrize("uv", [None, "uv"])
def test_installation_checks_hashes_and_builds_nothing(uv: str | None) -> None:
    command = bootstrap.plan_installation(Path("web.txt"), uv, Path("python"))
    assert "--require-hashes" in command
    assert command[command.index("--only-binary") + 1] == ":all:"


@pytest.mark.parametrize(("system", "machine"), [("Darwin", "arm64"), ("Linux", "aarch64"), ("Windows", "AMD64")])
def test_other_platforms_are_refused(system: str, machine: str) -> None:
    with pytest.raises(SetupError, match=f"this is {system} on {machine}"):
        bootstrap.check_platform(system, machine)


def test_too_little_disk_is_refused_before_anything_is_written(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(free=1_500_000_000))
    before = sorted(checkout.rglob("*"))
    with pytest.raises(SetupError, match=r"needs about \d\.\d GB.*1\.5 GB are free"):
        Environment(checkout).install("demo", uv=None)
    assert sorted(checkout.rglob("*")) == before


def test_a_complete_environment_is_current_for_what_it_holds(environment: Environment) -> None:
    assert environment.is_current("demo")
    assert environment.is_current("web")
    assert not environment.is_current("dev")
    assert not environment.is_current("h200")


def test_a_changed_lock_is_noticed(environment: Environment) -> None:
    (environment.root / "requirements" / "demo.txt").write_text("another\n", encoding="utf-8")
    assert not environment.is_current("demo")
    assert environment.is_current("web")


def test_a_moved_checkout_is_noticed(environment: Environment, tmp_path_factory: pytest.TempPathFactory) -> None:
    moved = tmp_path_factory.mktemp("elsewhere") / "checkout"
    environment.root.rename(moved)
    assert not Environment(moved).is_current("demo")


def test_an_interrupted_installation_is_noticed(environment: Environment) -> None:
    environment.unfinished.parent.mkdir()
    environment.unfinished.touch()
    assert not environment.is_current("demo")
    assert not environment.is_usable()


@pytest.mark.parametrize("text", ["", "{", '{"locks": {}}'])
def test_a_damaged_stamp_is_noticed(environment: Environment, text: str) -> None:
    environment.stamp.write_text(text, encoding="utf-8")
    assert not environment.is_current("demo")


def test_a_failed_command_says_what_failed() -> None:
    with pytest.raises(SetupError, match=r"The set-up failed at: false"):
        bootstrap.execute(["false"])


def test_another_active_environment_is_left_alone() -> None:
    variables = bootstrap.make_variables({"VIRTUAL_ENV": "/elsewhere", "PYTHONPATH": "/elsewhere", "HOME": "/home"})
    assert "VIRTUAL_ENV" not in variables
    assert "PYTHONPATH" not in variables
    assert variables["HOME"] == "/home"


def test_an_unfinished_environment_is_made_afresh(environment: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a killed installation left is deleted; the next one ends with a current environment."""
    leftover = environment.path / "half-unpacked"
    leftover.touch()
    environment.unfinished.parent.mkdir()
    environment.unfinished.touch()
    packages = environment.path / f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"

    def execute(command: list[str]) -> None:
        if "venv" in command:
            packages.mkdir(parents=True)
            environment.python.parent.mkdir()
            environment.python.symlink_to(sys.executable)

    monkeypatch.setattr(bootstrap, "execute", execute)
    monkeypatch.setattr(bootstrap, "check_disk", lambda *_: None)
    environment.install("dev", uv=None)
    assert environment.is_current("dev")
    assert not leftover.exists()
    assert (packages / "kernelquest.pth").read_text(encoding="utf-8").strip() == str(environment.root)


def test_the_command_line_refuses_an_unknown_lock() -> None:
    program = [sys.executable, "-I", bootstrap.__file__, "everything"]
    answer = subprocess.run(program, capture_output=True, text=True, check=False)
    assert answer.returncode == 2
    assert "usage: bootstrap.py web|demo|dev|h200" in answer.stderr


def test_the_written_kq_is_the_one_that_pyproject_declares() -> None:
    project = tomllib.loads((bootstrap.ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    module, function = project["scripts"]["kq"].split(":")
    assert f"from {module} import {function}\n" in bootstrap.LAUNCHER


def test_the_supported_versions_are_those_that_pyproject_declares() -> None:
    project = tomllib.loads((bootstrap.ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    major, minor = bootstrap.NEWEST
    assert project["requires-python"] == f">={bootstrap.OLDEST[0]}.{bootstrap.OLDEST[1]},<{major}.{minor + 1}"
