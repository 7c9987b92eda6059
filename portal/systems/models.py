"""What is compared: a system is a model in a scaffold, owned by a team."""

from __future__ import annotations

from django.db import models

from portal.accounts.models import Team
from portal.systems.querysets import SystemQuerySet


class Scaffold(models.Model):
    """The program around a model: its tools, prompts and loop."""

    slug = models.SlugField(max_length=60, unique=True)
    name = models.CharField(max_length=120)
    version = models.CharField(max_length=60, blank=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return f"{self.name} {self.version}".strip()


class System(models.Model):
    slug = models.SlugField(max_length=60, unique=True)
    name = models.CharField(max_length=120)
    vendor = models.CharField(max_length=120, blank=True)
    scaffold = models.ForeignKey(Scaffold, on_delete=models.PROTECT, related_name="systems", null=True, blank=True)
    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="systems")
    created_at = models.DateTimeField(auto_now_add=True)

    objects = SystemQuerySet.as_manager()

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name
