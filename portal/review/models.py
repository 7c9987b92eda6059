"""The trail, and what reviewers and teams say about verdicts."""

from __future__ import annotations

import json
from typing import Any

from django.db import models
from django.db.models.functions import Now
from django.utils import timezone

from portal.accounts.models import User
from portal.review.querysets import AppealQuerySet, TrailEventQuerySet
from portal.runs.models import Run, Source, Verdict


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


class Case(models.Model):
    """A reviewer's hold on a run, for a limited time, so that two people do not do one case."""

    run = models.OneToOneField(Run, on_delete=models.PROTECT, related_name="case")
    assignee = models.ForeignKey(User, on_delete=models.PROTECT, related_name="cases", null=True)
    assigned_until = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(assignee__isnull=True, assigned_until__isnull=True)
                | models.Q(assignee__isnull=False, assigned_until__isnull=False),
                name="case_assigned_for_a_time",
            )
        ]

    def __str__(self) -> str:
        return f"case of run {self.run_id}"

    @property
    def holder(self) -> User | None:
        """Who holds the case now."""
        held = self.assigned_until is not None and self.assigned_until > timezone.now()
        return self.assignee if held else None


class Decision(models.Model):
    """What a reviewer said of a verdict, with the reason that its team reads. Never changed."""

    class Kind(models.TextChoices):
        UPHOLD = "uphold", "Uphold the verdict"
        OVERTURN = "overturn", "Overturn the verdict"
        REVERIFY = "reverify", "Verify the run again"
        FLAG = "flag", "Flag a pattern"
        ASK = "ask", "Ask the team"

    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="decisions")
    verdict = models.ForeignKey(Verdict, on_delete=models.PROTECT, related_name="decisions")
    result = models.OneToOneField(
        Verdict, on_delete=models.PROTECT, related_name="decision", null=True, help_text="The revision that it made."
    )
    kind = models.CharField(max_length=8, choices=Kind.choices)
    reason = models.TextField()
    pattern = models.CharField(max_length=80, blank=True, db_index=True)
    decided_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="decisions")
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["created_at", "id"]
        constraints = [
            models.CheckConstraint(condition=~models.Q(reason=""), name="decision_has_reason"),
            models.CheckConstraint(
                condition=models.Q(kind="overturn", result__isnull=False)
                | (~models.Q(kind="overturn") & models.Q(result__isnull=True)),
                name="decision_overturns_by_a_revision",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} of run {self.run_id}"

    @property
    def closes(self) -> bool:
        """True when nothing is left to decide about the verdict."""
        return self.kind in CLOSING


CLOSING = (Decision.Kind.UPHOLD, Decision.Kind.OVERTURN)


class Reply(models.Model):
    """What a team answered to a reviewer's question."""

    decision = models.OneToOneField(Decision, on_delete=models.PROTECT, related_name="reply")
    text = models.TextField()
    written_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return f"reply to decision {self.decision_id}"


class Appeal(models.Model):
    """A team's objection to a verdict, once for each. It is answered by a decision."""

    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="appeals")
    verdict = models.OneToOneField(Verdict, on_delete=models.PROTECT, related_name="appeal")
    reason = models.TextField()
    opened_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="appeals")
    created_at = models.DateTimeField(db_default=Now())
    decision = models.ForeignKey(Decision, on_delete=models.PROTECT, related_name="appeals", null=True)

    objects = AppealQuerySet.as_manager()

    class Meta:
        ordering = ["created_at", "id"]

    def __str__(self) -> str:
        return f"appeal against verdict {self.verdict_id}"


class Fingerprint(models.Model):
    """What a source looks like without its names, comments and spacing, so that near-duplicates are found."""

    source = models.OneToOneField(Source, on_delete=models.CASCADE, related_name="fingerprint", primary_key=True)
    signature = models.BinaryField()
    group = models.CharField(max_length=64, db_index=True, help_text="The first source that looked like this.")

    def __str__(self) -> str:
        return f"fingerprint of {self.source_id[:12]}"


class FingerprintBand(models.Model):
    """A part of a signature. Sources that look alike very likely have one in common."""

    fingerprint = models.ForeignKey(Fingerprint, on_delete=models.CASCADE, related_name="bands")
    digest = models.CharField(max_length=20, db_index=True)

    def __str__(self) -> str:
        return self.digest


class Batch(models.Model):
    """Many runs that an administrator had verified again, with the reason."""

    reason = models.TextField()
    filters = models.TextField(help_text="Which runs were asked for, in words.")
    requested_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="batches")
    created_at = models.DateTimeField(db_default=Now())
    runs: models.ManyToManyField[Run, BatchRun] = models.ManyToManyField(
        Run, through="BatchRun", related_name="batches"
    )

    class Meta:
        ordering = ["-created_at", "-id"]

    def __str__(self) -> str:
        return f"batch {self.pk}"


class BatchRun(models.Model):
    """One run of a batch, with the verdict that it had before."""

    batch = models.ForeignKey(Batch, on_delete=models.PROTECT, related_name="items")
    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="+")
    before = models.ForeignKey(Verdict, on_delete=models.PROTECT, related_name="+")

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["batch", "run"], name="batch_run_once")]

    def __str__(self) -> str:
        return f"run {self.run_id} in batch {self.batch_id}"
