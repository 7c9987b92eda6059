"""The workers that this installation has seen."""

from __future__ import annotations

from datetime import timedelta

from django.db import models
from django.db.models.functions import Now

ALIVE_WITHIN = timedelta(seconds=15)


class WorkerQuerySet(models.QuerySet["Worker"]):
    def alive(self) -> WorkerQuerySet:
        """The workers that said something in the last 15 seconds."""
        return self.filter(last_seen_at__gt=Now() - ALIVE_WITHIN)


class Worker(models.Model):
    """One supervisor on one host, which serves one environment."""

    name = models.CharField(max_length=120, unique=True)
    environment_slug = models.SlugField(max_length=60)
    host = models.CharField(max_length=120)
    started_at = models.DateTimeField()
    last_seen_at = models.DateTimeField()
    restarts = models.PositiveIntegerField(default=0, help_text="How often its cluster was started again.")

    objects = WorkerQuerySet.as_manager()

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name
