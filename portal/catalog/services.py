"""Copies the tasks and environments on disk into the database. Nothing of a task is imported or run."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.db import transaction
from django.utils import timezone

from portal.catalog.models import Certificate, Environment, Release, ReleasedTask, Task
from verifier.certificate import load_certificate
from verifier.environment import EnvironmentSpecification, list_environments
from verifier.task import REQUIRED_FILES, TaskError, find_tasks_root, load_tasks
from verifier.task import Task as TaskFolder


@dataclass(frozen=True)
class Catalog:
    """How much was loaded."""

    environments: int
    tasks: int
    certificates: int
    retired: int


def _keep_environment(specification: EnvironmentSpecification) -> Environment:
    fields = specification.model_dump(mode="json", exclude={"schema_id", "slug"})
    environment, _ = Environment.objects.update_or_create(slug=specification.slug, defaults=fields)
    return environment


def compute_task_digest(folder: Path) -> str:
    """Return the SHA-256 over every file that defines the task in `folder`."""
    digest = hashlib.sha256()
    for name in REQUIRED_FILES:
        digest.update(f"{name}\0".encode())
        digest.update(hashlib.sha256((folder / name).read_bytes()).digest())
    return digest.hexdigest()


def _describe_task(task: TaskFolder) -> dict[str, Any]:
    """Return the fields of a task's row, without anything that is hidden from agents."""
    specification = task.specification
    visible = specification.visible_distributions
    hidden = {"schema_id", "id", "distributions", "shortcuts"}
    return specification.model_dump(mode="json", exclude=hidden) | {
        "active": True,
        "instruction": task.instruction,
        "reference_source": task.reference_source,
        "distributions": [item.model_dump(include={"name", "description"}) for item in visible],
        "hidden_distributions": len(specification.distributions) - len(visible),
        "digest": compute_task_digest(task.path),
    }


def _keep_certificate(path: Path, task: TaskFolder, environments: set[str]) -> Certificate:
    if path.stem not in environments:
        raise TaskError(path, "", f"there is no environment {path.stem!r}; known: {', '.join(sorted(environments))}")
    found = load_certificate(task, path.stem)
    if found is None:
        raise TaskError(path, "", "the file is gone")
    certificate, _ = Certificate.objects.update_or_create(
        task_id=task.id,
        environment_id=path.stem,
        defaults={
            "target": found.target,
            "body": found.model_dump(mode="json"),
            "digest": hashlib.sha256(path.read_bytes()).hexdigest(),
        },
    )
    return certificate


def _keep_task(task: TaskFolder, environments: set[str]) -> list[Certificate]:
    Task.objects.update_or_create(id=task.id, defaults=_describe_task(task))
    paths = sorted((task.path / "certificates").glob("*.json"))
    certificates = [_keep_certificate(path, task, environments) for path in paths]
    kept = [certificate.pk for certificate in certificates]
    Certificate.objects.filter(task_id=task.id).exclude(pk__in=kept).delete()
    return certificates


def _keep_release(digests: dict[str, str]) -> Release:
    """Return the release that has exactly these tasks, by id and digest, and make it the newest."""
    lines = "".join(f"{task} {digest}\n" for task, digest in sorted(digests.items()))
    slug = hashlib.sha256(lines.encode()).hexdigest()[:12]
    newest = Release.objects.first()
    if newest is not None and newest.slug == slug:
        return newest
    release, created = Release.objects.update_or_create(slug=slug, defaults={"loaded_at": timezone.now()})
    if created:
        ReleasedTask.objects.bulk_create(
            ReleasedTask(release=release, task_id=task, digest=digest) for task, digest in digests.items()
        )
    return release


@transaction.atomic
def load_catalog(root: Path | None = None) -> Catalog:
    """Make the database say what the folder of tasks says. A task that is gone keeps its runs and takes no new ones.

    Raises TaskError, with file, key and reason, and then changes nothing.
    """
    root = root or find_tasks_root()
    tasks = load_tasks(root)
    if not tasks:
        raise TaskError(root, "", "there is no task here; name the folder of tasks by KQ_TASKS")
    environments = {_keep_environment(specification).slug for specification in list_environments(root)}
    certificates = sum(len(_keep_task(task, environments)) for task in tasks)
    _keep_release(dict(Task.objects.filter(id__in=[task.id for task in tasks]).values_list("id", "digest")))
    gone = Task.objects.active().exclude(id__in=[task.id for task in tasks])
    return Catalog(len(environments), len(tasks), certificates, gone.update(active=False))
