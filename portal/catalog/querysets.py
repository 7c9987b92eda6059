from __future__ import annotations

from typing import TYPE_CHECKING

from django.conf import settings
from django.db import models
from django.db.models import Exists, OuterRef, Q

from portal.ops.models import Worker

if TYPE_CHECKING:
    from portal.catalog.models import Environment, Task  # noqa: F401  the base classes name them


class EnvironmentQuerySet(models.QuerySet["Environment"]):
    def served(self) -> EnvironmentQuerySet:
        """The environments for which this installation accepts runs: those of its settings and of its workers.

        `has_worker` says whether one is at work now; those with one come first.
        """
        workers = Worker.objects.filter(environment_slug=OuterRef("slug"))
        known = self.filter(Q(slug__in=settings.SERVED_ENVIRONMENTS) | Exists(workers))
        return known.annotate(has_worker=Exists(workers.alive())).order_by("-has_worker", "-official", "slug")


class TaskQuerySet(models.QuerySet["Task"]):
    def active(self) -> TaskQuerySet:
        """Tasks that are on disk, so that runs can be submitted for them."""
        return self.filter(active=True)

    def for_lists(self) -> TaskQuerySet:
        """Leave out the long texts."""
        return self.defer("instruction", "reference_source", "inputs", "parameters", "outputs")
