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
from verifier.task import find_tasks_root, load_tasks

MINIMUM_FREE_BYTES = 2 << 30


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at. `fix` is empty when it is well."""

    name: str
    ok: bool
    found: str
    fix: str = ""

    def to_dict(self) -> dict[str, object]:
        return asdict(self)


def check_python() -> Finding:
    found = platform.python_version()
    ok = (3, 11) <= sys.version_info[:2] <= (3, 12)
    return Finding("python", ok, found, "" if ok else "the pinned Triton 3.1.0 has builds for Python 3.11 and 3.12 only")


def check_versions() -> Finding:
    """Compare torch and Triton with the environment's pins."""
    pins = load_environment("cpu-interpreter").versions
    try:
        found = {name: importlib.metadata.version(name) for name in ("torch", "triton")}
    except importlib.metadata.PackageNotFoundError as error:
        return Finding("packages", False, "missing", f"install the package {error.name}: the extra 'verifier' of this project holds it")
    ok = found["torch"].split("+")[0] == pins.torch and found["triton"] == pins.triton
    text = f"torch {found['torch']}, triton {found['triton']}"
    return Finding("packages", ok, text, "" if ok else f"this environment needs torch {pins.torch} and triton {pins.triton}")


def check_sandbox() -> Finding:
    try:
        return Finding("sandbox", True, f"{sandbox.find_bubblewrap()} ({sandbox.probe()})")
    except sandbox.SandboxUnavailable as error:
        return Finding("sandbox", False, "unavailable", str(error))


def check_space() -> Finding:
    free = shutil.disk_usage(tempfile.gettempdir()).free
    ok = free >= MINIMUM_FREE_BYTES
    return Finding("disk", ok, f"{free / 2**30:.1f} GiB free in {tempfile.gettempdir()}", "" if ok else "free at least 2 GiB, or set TMPDIR to a larger disk")


def check_tasks() -> Finding:
    try:
        tasks = load_tasks()
    except ValueError as error:
        return Finding("tasks", False, "malformed", str(error))
    return Finding("tasks", bool(tasks), f"{len(tasks)} tasks", "" if tasks else f"no tasks in {find_tasks_root()}; set KQ_TASKS")


CHECKS: tuple[Callable[[], Finding], ...] = (check_python, check_versions, check_sandbox, check_space, check_tasks)


def examine() -> list[Finding]:
    """Return what was found, in order."""
    return [check() for check in CHECKS]
