"""Trials of other systems that became runs here."""

from __future__ import annotations

from django.db import models

from portal.accounts.models import User
from portal.runs.models import Run


class ImportedTrial(models.Model):
    """What a system that ran an agent recorded of it. The verdict is our own: it belongs to the run."""

    run = models.OneToOneField(Run, on_delete=models.PROTECT, related_name="trial")
    trial = models.UUIDField(unique=True, help_text="By which the same trial is recognised.")
    job = models.UUIDField(db_index=True)
    name = models.CharField(max_length=200)
    digest = models.CharField(max_length=71, help_text="Of the exported task that the agent worked on.")
    exception = models.CharField(max_length=120, blank=True, help_text="What ended the agent, by its own doing.")
    flagged = models.BooleanField(default=False, help_text="The agent's program failed; somebody should look.")
    claimed_reward = models.FloatField(null=True, help_text="What the trial's own verifier said; nothing counts it.")
    started_at = models.DateTimeField(null=True, help_text="When the agent began.")
    input_tokens = models.PositiveBigIntegerField(null=True)
    cached_tokens = models.PositiveBigIntegerField(null=True)
    output_tokens = models.PositiveBigIntegerField(null=True)
    cost_usd = models.FloatField(null=True)
    trajectory = models.TextField(blank=True, help_text="ATIF as JSON; hostile text.")
    notes = models.TextField(blank=True)
    imported_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    imported_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return self.name
