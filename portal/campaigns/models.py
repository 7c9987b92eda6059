"""Campaigns: the runs of a system that were submitted together, and the drafts that they begin as."""

from __future__ import annotations

import uuid

from django.db import models
from django.db.models import Q

from portal.accounts.models import Team, User
from portal.campaigns.file_names import NAME_CAP
from portal.campaigns.querysets import CampaignQuerySet
from portal.catalog.models import Environment
from portal.runs.models import Run
from portal.systems.models import System


class Campaign(models.Model):
    """Up to 300 runs of one system in one environment. Until it is confirmed it is a draft, which holds files."""

    class State(models.TextChoices):
        DRAFT = "draft", "Draft"
        SUBMITTED = "submitted", "Submitted"
        DISCARDED = "discarded", "Discarded"

    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    system = models.ForeignKey(System, on_delete=models.PROTECT, related_name="campaigns")
    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="campaigns")
    environment = models.ForeignKey(Environment, on_delete=models.PROTECT, related_name="campaigns")
    title = models.CharField(max_length=120, blank=True)
    state = models.CharField(max_length=9, choices=State.choices, default=State.DRAFT)
    visibility = models.CharField(max_length=7, choices=Run.Visibility.choices, default=Run.Visibility.PRIVATE)
    source_released = models.BooleanField(default=False)
    created_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="campaigns")
    created_at = models.DateTimeField(auto_now_add=True)
    changed_at = models.DateTimeField(auto_now_add=True, help_text="When the draft last changed.")
    submitted_at = models.DateTimeField(null=True)

    objects = CampaignQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at", "-id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=["draft", "submitted", "discarded"]), name="campaign_state_known"
            ),
            models.CheckConstraint(
                condition=Q(state="submitted", submitted_at__isnull=False)
                | (~Q(state="submitted") & Q(submitted_at__isnull=True)),
                name="campaign_submitted_at_a_time",
            ),
            models.CheckConstraint(
                condition=Q(visibility__in=["private", "team", "public"]), name="campaign_visibility_known"
            ),
        ]

    def __str__(self) -> str:
        return str(self.public_id)

    @property
    def label(self) -> str:
        """What people call the campaign."""
        return self.title or f"Campaign of {self.created_at:%Y-%m-%d %H:%M} UTC"

    @property
    def is_draft(self) -> bool:
        """True until the campaign is confirmed or discarded."""
        return self.state == self.State.DRAFT


class CampaignFile(models.Model):
    """One file of a draft. When the campaign is confirmed its text becomes the source of a run."""

    campaign = models.ForeignKey(Campaign, on_delete=models.CASCADE, related_name="files")
    name = models.CharField(max_length=NAME_CAP, help_text="The path within the campaign.")
    sha256 = models.CharField(max_length=64)
    text = models.TextField()
    bytes = models.PositiveIntegerField()
    wall_clock_seconds = models.PositiveIntegerField(null=True, help_text="As of a run.")
    added_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["campaign", "name"], name="campaign_file_once_per_name")]

    def __str__(self) -> str:
        return self.name
