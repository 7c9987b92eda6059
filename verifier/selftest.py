"""The verifier's conscience on disk: submissions whose verdict is known, and the tasks that only they use.

A folder of fixtures holds ``exploits/`` (each rejected with its code), ``honest/`` (each accepted) and
``fixture_tasks/`` (tasks of the verifier's own). This module only reads them; it imports neither torch nor the files.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from verifier.task import Task, load_task

EXPLOITS, HONEST, FIXTURE_TASKS = "exploits", "honest", "fixture_tasks"

_HEADER = re.compile(r"^# (task|expect|why): (.+)$", re.MULTILINE)
_ALSO = re.compile(r"^# also: (\w+)$", re.MULTILINE)


@dataclass(frozen=True)
class Fixture:
    """One submission and what must become of it; `expected` is empty for an honest one."""

    path: Path
    task: str
    expected: str
    also: tuple[str, ...] = ()


def read_fixture(path: Path) -> Fixture:
    """Return the fixture at `path`. Raises ValueError when its header is incomplete."""
    text = path.read_text(encoding="utf-8")
    header = dict(_HEADER.findall(text))
    wanted = {"task", "why"} | ({"expect"} if path.parent.name == EXPLOITS else set())
    if missing := wanted - header.keys():
        raise ValueError(f"{path}: the header lacks {', '.join(sorted(missing))}")
    return Fixture(path, header["task"], header.get("expect", ""), tuple(_ALSO.findall(text)))


def list_fixtures(folder: Path) -> list[Fixture]:
    """Return every fixture of ``exploits/`` and ``honest/`` by name, exploits first. Raises ValueError."""
    paths = [path for kind in (EXPLOITS, HONEST) for path in sorted((folder / kind).glob("*.py"))]
    return [read_fixture(path) for path in paths if path.name != "__init__.py"]


def find_fixture_task(name: str, folder: Path) -> Task:
    """Return the task that a fixture names: one of the benchmark's, else one of ``fixture_tasks/``.

    Raises TaskError for a malformed task, or KeyError when there is none of that name.
    """
    try:
        return load_task(name)
    except KeyError:
        return load_task(name, folder / FIXTURE_TASKS)
