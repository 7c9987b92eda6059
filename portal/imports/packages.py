"""The manifest of a package that `kq export` wrote: by it the tasks of trials are recognised."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from pydantic import Field

from portal.catalog.models import Task
from portal.imports.jobs import Model, parse, read_file
from portal.imports.policy import Known
from verifier.task import REQUIRED_FILES

MANIFEST = "kernelquest.json"
MANIFEST_CAP = 2**20


class PackagedTask(Model):
    task: str
    name: str
    digest: str
    files: dict[str, str]


class Package(Model):
    """The parts of kernelquest.json that an import needs."""

    schema_id: str = Field(alias="schema", pattern=r"^kernelquest\.package/1$")
    environment: str
    tasks: list[PackagedTask]


def read_package(path: Path) -> Package:
    """Read a manifest, by its path or that of its package. Raises JobError."""
    place = path / MANIFEST if path.is_dir() else path
    return parse(Package, read_file(place, MANIFEST_CAP), str(place))


def compute_task_digest(files: Mapping[str, str]) -> str:
    """Return the digest that the catalogue keeps of a task with these files. Raises KeyError, and ValueError."""
    digest = hashlib.sha256()
    for name in REQUIRED_FILES:
        digest.update(f"{name}\0".encode())
        digest.update(bytes.fromhex(files[name]))
    return digest.hexdigest()


def list_known(package: Package) -> dict[str, Known]:
    """Return the tasks of a package by Harbor's names, with a problem where the catalogue has another task."""
    current = dict(Task.objects.active().values_list("id", "digest"))
    return {item.name: Known(item.task, item.digest, find_problem(item, current)) for item in package.tasks}


def find_problem(item: PackagedTask, current: Mapping[str, str]) -> str:
    """Return why trials of a packaged task do not count, or an empty text."""
    if item.task not in current:
        return f"{item.task} is no active task here"
    try:
        same = compute_task_digest(item.files) == current[item.task]
    except (KeyError, ValueError):
        same = False
    return "" if same else f"{item.task} has changed since the package was written"
