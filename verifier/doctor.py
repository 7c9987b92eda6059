"""Says whether this host can verify, and what to do where it cannot."""

from __future__ import annotations

import importlib.metadata
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass

from verifier import sandbox
from verifier.environment import load_environment
from verifier.task import TaskError, find_tasks_root, load_tasks

MINIMUM_FREE_BYTES = 2 << 30


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at. `fix` says what to do, and is empty when all is well."""

    name: str
    found: str
    fix: str = ""

    @property
    def ok(self) -> bool:
        return not self.fix

    def to_dict(self) -> dict[str, object]:
        return {**asdict(self), "ok": self.ok}


def check_python() -> Finding:
    supported = (3, 11) <= sys.version_info[:2] <= (3, 12)
    fix = "" if supported else "use Python 3.11 or 3.12: the pinned Triton 3.1.0 has builds for no other"
    return Finding("python", platform.python_version(), fix)


def check_versions() -> Finding:
    """Compare torch and Triton with the environment's pins."""
    pins = load_environment("cpu-interpreter").versions
    try:
        found = {name: importlib.metadata.version(name) for name in ("torch", "triton")}
    except importlib.metadata.PackageNotFoundError as error:
        return Finding("packages", "missing", f"install {error.name}: this project's extra 'verifier' holds it")
    pinned = found["torch"].split("+")[0] == pins.torch and found["triton"] == pins.triton
    fix = "" if pinned else f"this environment needs torch {pins.torch} and triton {pins.triton}"
    return Finding("packages", f"torch {found['torch']}, triton {found['triton']}", fix)


def check_sandbox() -> Finding:
    try:
        return Finding("sandbox", f"{sandbox.find_bubblewrap()} ({sandbox.probe()})")
    except sandbox.SandboxUnavailable as error:
        return Finding("sandbox", "unavailable", str(error))


def check_space() -> Finding:
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    fix = "" if free >= MINIMUM_FREE_BYTES else "free at least 2 GiB, or set TMPDIR to a larger disk"
    return Finding("disk", f"{free / 2**30:.1f} GiB free in {folder}", fix)


def check_tasks() -> Finding:
    try:
        tasks = load_tasks()
    except TaskError as error:
        return Finding("tasks", "malformed", str(error))
    return Finding("tasks", f"{len(tasks)} tasks", "" if tasks else f"no tasks in {find_tasks_root()}; set KQ_TASKS")


CHECKS: tuple[Callable[[], Finding], ...] = (check_python, check_versions, check_sandbox, check_space, check_tasks)


def examine() -> list[Finding]:
    """Return what was found, in order."""
    return [check() for check in CHECKS]
