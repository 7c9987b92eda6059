from __future__ import annotations

from django.db.models import F
from django.db.models.functions import Now

from portal.ops.models import Worker


def register_worker(*, name: str, environment: str, host: str) -> Worker:
    """Note that a worker has started."""
    fields = {"environment_slug": environment, "host": host, "started_at": Now(), "last_seen_at": Now(), "restarts": 0}
    worker, _ = Worker.objects.update_or_create(name=name, defaults=fields)
    return worker


def note_worker_alive(*, name: str) -> None:
    """Note that a worker still watches over its cluster."""
    Worker.objects.filter(name=name).update(last_seen_at=Now())


def note_worker_restart(*, name: str) -> None:
    """Count a restart of the worker's cluster."""
    Worker.objects.filter(name=name).update(restarts=F("restarts") + 1)


def remove_worker(*, name: str) -> None:
    """Forget a worker that stops in good order."""
    Worker.objects.filter(name=name).delete()
