from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import models

if TYPE_CHECKING:
    from portal.catalog.models import Task


class TaskQuerySet(models.QuerySet["Task"]):
    def active(self) -> TaskQuerySet:
        """Tasks that are on disk, so that runs can be submitted for them."""
        return self.filter(active=True)

    def for_lists(self) -> TaskQuerySet:
        """Leave out the long texts."""
        return self.defer("instruction", "reference_source", "inputs", "parameters", "outputs")
