"""Tasks in Harbor's format, version 1.4: a folder each, with an image for the agent and one for the verifier.

The public package holds what an agent may see, so its rewards are from visible inputs; the official one holds the whole
task, certified solution and all, and is for evaluators. Both are the same bytes wherever they are written.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from verifier import __version__
from verifier.certificate import load_certificate
from verifier.environment import EnvironmentSpecification
from verifier.exports import texts
from verifier.exports.digest import compute_digest
from verifier.task import REQUIRED_FILES, Task, find_tasks_root
from verifier.workspaces.public import write_public_task

ROOT = Path(__file__).resolve().parents[2]
ORGANISATION = "kernelquest"
MANIFEST = "kernelquest.json"
# Where it is known which packages are current: a release of Python for each series.
PYTHON = {"3.11": "3.11.13", "3.12": "3.12.11"}
# The lock of pinned packages that serves an environment.
LOCKS = {"h200": "h200"}
DEFAULT_LOCK = "demo"


class ExportError(ValueError):
    """Why nothing was written. The message says what to do."""


class ExportedTask(BaseModel):
    """One task of a package, and by what its trials are recognised."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    task: str
    name: str = Field(description="as Harbor knows it")
    folder: str
    digest: str = Field(description="Harbor's digest of the folder")
    target: float | None = None
    files: dict[str, str] = Field(description="SHA-256 of each file that defines the task, hidden ones included")


class Manifest(BaseModel):
    """The contents of kernelquest.json beside the tasks."""

    model_config = ConfigDict(extra="ignore", frozen=True, populate_by_name=True, serialize_by_alias=True)

    schema_id: Literal["kernelquest.package/1"] = Field("kernelquest.package/1", alias="schema")
    environment: str
    official: bool
    verifier_version: str = __version__
    tasks: list[ExportedTask]


@dataclass(frozen=True)
class Package:
    """What the parts of one exported task have in common."""

    task: Task
    environment: EnvironmentSpecification
    target: float | None
    official: bool

    @property
    def slug(self) -> str:
        return f"{self.task.id}-{self.task.specification.slug}"


def export(tasks: Sequence[Task], folder: Path, environment: EnvironmentSpecification, *, official: bool) -> Manifest:
    """Write tasks and their manifest into a new or empty folder, all or nothing. Raises ExportError."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ExportError(f"{folder} is not empty, and nothing is overwritten. Name a new folder.")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".unfinished-", dir=folder.parent) as place:
        unfinished = Path(place) / "package"
        unfinished.mkdir()
        written = [write_task(make_package(task, environment, official=official), unfinished) for task in tasks]
        manifest = Manifest(environment=environment.slug, official=official, tasks=written)
        (unfinished / MANIFEST).write_text(manifest.model_dump_json(indent=2) + "\n", encoding="utf-8")
        (unfinished / "README.md").write_text(texts.describe_package(manifest.official), encoding="utf-8")
        unfinished.replace(folder)
    return manifest


def make_package(task: Task, environment: EnvironmentSpecification, *, official: bool) -> Package:
    """Return what is to be exported of a task."""
    certificate = load_certificate(task, environment.slug)
    return Package(task, environment, certificate.target if certificate else None, official)


def write_task(package: Package, root: Path) -> ExportedTask:
    """Write one task below `root`, and return what the manifest says of it."""
    folder = root / package.slug
    for name in ("environment", "tests"):
        (folder / name).mkdir(parents=True)
    write_image(package, folder / "environment", package.environment, official=False)
    write_image(package, folder / "tests", package.environment, official=package.official)
    write_texts(package, folder)
    if package.official:
        (folder / "solution").mkdir()
        shutil.copyfile(package.task.path / "certified.py", folder / "solution" / "solution.py")
        write_script(folder / "solution" / "solve.sh", texts.SOLVE)
    digests = {name: hashlib.sha256((package.task.path / name).read_bytes()).hexdigest() for name in REQUIRED_FILES}
    return ExportedTask(
        task=package.task.id,
        name=f"{ORGANISATION}/{package.slug}",
        folder=package.slug,
        digest=compute_digest(folder),
        target=package.target,
        files=digests,
    )


def write_texts(package: Package, folder: Path) -> None:
    """Write what Harbor reads of a task, and the scripts of both images."""
    task, environment = package.task, package.environment
    version = PYTHON[environment.versions.python.split()[0]]
    target = "" if package.target is None else f" --target {package.target!r}"
    names = {"task": task.id, "environment": environment.slug, "python": version, "target": target}
    (folder / "task.toml").write_text(describe_task(package), encoding="utf-8")
    (folder / "instruction.md").write_text(
        task.instruction.rstrip() + "\n" + texts.describe_hand_in(package.target, environment.title), encoding="utf-8"
    )
    (folder / "environment" / "Dockerfile").write_text(texts.AGENT_IMAGE.format(**names), encoding="utf-8")
    write_script(folder / "environment" / "kq", texts.COMMAND)
    (folder / "tests" / "Dockerfile").write_text(texts.VERIFIER_IMAGE.format(**names), encoding="utf-8")
    write_script(folder / "tests" / "test.sh", texts.TEST.format(**names))


def write_script(path: Path, text: str) -> None:
    """Write a file that can be run."""
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


def write_image(package: Package, folder: Path, environment: EnvironmentSpecification, *, official: bool) -> None:
    """Write what an image is built from: the verifier, its pinned packages, one environment and one task."""
    lock = ROOT / "requirements" / f"{LOCKS.get(environment.slug, DEFAULT_LOCK)}.txt"
    if not lock.is_file():
        raise ExportError(f"{lock} is missing. Run the command from a checkout of the project.")
    shutil.copyfile(lock, folder / "requirements.txt")
    home = folder / "kernelquest"
    shutil.copytree(ROOT / "verifier", home / "verifier", ignore=shutil.ignore_patterns("__pycache__", "*.pyc", ".*"))
    tasks = home / "tasks"
    (tasks / "environments").mkdir(parents=True)
    source = find_tasks_root() / "environments" / f"{environment.slug}.toml"
    shutil.copyfile(source, tasks / "environments" / source.name)
    if official:
        copy_whole_task(package, tasks)
    else:
        write_public_task(package.task, tasks)


def copy_whole_task(package: Package, tasks: Path) -> None:
    """Copy a task with everything hidden, and its certificate in the environment."""
    source = package.task.path
    folder = tasks / source.parent.name / source.name
    folder.mkdir(parents=True)
    for name in REQUIRED_FILES:
        shutil.copyfile(source / name, folder / name)
    certificate = source / "certificates" / f"{package.environment.slug}.json"
    if certificate.is_file():
        (folder / "certificates").mkdir()
        shutil.copyfile(certificate, folder / "certificates" / certificate.name)


def describe_task(package: Package) -> str:
    """Return the text of task.toml."""
    specification, environment = package.task.specification, package.environment
    machine: dict[str, Any] = {"build_timeout_sec": 1800.0, "cpus": 8, "memory_mb": 65536}
    if environment.timed:
        machine |= {"gpus": 1, "gpu_types": [environment.device.name.split()[-1]]}
    metadata: dict[str, Any] = {
        "task": specification.id,
        "level": specification.level,
        "family": specification.family,
        "dtype": specification.dtype,
        "environment": environment.slug,
        "inputs": "hidden" if package.official else "visible",
    }
    if package.target is not None:
        metadata["certified_target"] = package.target
    tables: dict[str, dict[str, Any]] = {
        "task": {
            "name": f"{ORGANISATION}/{package.slug}",
            "version": __version__,
            "description": specification.title,
            "keywords": ["triton", "gpu", specification.level.lower(), specification.family],
        },
        "metadata": metadata,
        "verifier": {"timeout_sec": 1800.0, "environment_mode": "separate", "network_mode": "no-network"},
        "verifier.environment": machine | {"network_mode": "no-network"},
        "agent": {"timeout_sec": 3600.0, "user": "agent"},
        # The agents that Harbor brings reach their model from inside; a run narrows it to those hosts.
        "environment": machine | {"network_mode": "public", "workdir": "/workspace"},
    }
    if environment.timed:
        check = "python -c 'import torch; assert torch.cuda.is_available()'"
        tables["environment.healthcheck"] = {"command": check, "timeout_sec": 60.0}
    return texts.HEAD + "".join(f"\n[{name}]\n{write_table(table)}" for name, table in tables.items())


def write_table(table: dict[str, Any]) -> str:
    """Return the lines of a TOML table of numbers, texts and lists of texts: JSON writes them in the same way."""
    return "".join(f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in table.items())
