"""The trail, and what reviewers and teams say about verdicts."""

from __future__ import annotations

import json
from typing import Any

from django.db import models

from portal.accounts.models import User
from portal.review.querysets import TrailEventQuerySet


class TrailEvent(models.Model):
    """One thing that was done. The database refuses to change it, and its hash covers the event before it."""

    number = models.PositiveBigIntegerField(primary_key=True)
    at = models.DateTimeField()
    # The event outlives the account.
    actor = models.ForeignKey(User, on_delete=models.DO_NOTHING, null=True, db_constraint=False, related_name="+")
    actor_name = models.CharField(max_length=150, help_text="A username, or the name of a worker.")
    action = models.CharField(max_length=40)
    subject_type = models.CharField(max_length=40)
    subject_id = models.CharField(max_length=64)
    before = models.TextField(help_text="Canonical JSON.")
    after = models.TextField(help_text="Canonical JSON.")
    request_id = models.CharField(max_length=32, blank=True)
    address = models.CharField(max_length=45, blank=True)
    previous_hash = models.CharField(max_length=64, unique=True)
    hash = models.CharField(max_length=64, unique=True)

    objects = TrailEventQuerySet.as_manager()

    class Meta:
        ordering = ["number"]
        indexes = [models.Index(fields=["subject_type", "subject_id", "number"], name="trail_by_subject")]

    def __str__(self) -> str:
        return f"{self.number} {self.action} {self.subject_type} {self.subject_id}"

    @property
    def before_values(self) -> dict[str, Any]:
        """What was, by name."""
        return json.loads(self.before) or {}

    @property
    def after_values(self) -> dict[str, Any]:
        """What is since then, by name."""
        return json.loads(self.after) or {}
