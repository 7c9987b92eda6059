"""What people are told, and what is to be sent out. The `Delivery` row is the queue, as with runs."""

from __future__ import annotations

import uuid

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from portal.accounts.models import Team, User
from portal.notifications.kinds import Kind
from portal.notifications.querysets import DeliveryQuerySet, NotificationQuerySet
from portal.runs.models import Run


class Preference(models.Model):
    """How somebody wants to be told of one kind; without a row, in the page and by mail."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="preferences")
    kind = models.CharField(max_length=8, choices=Kind.choices)
    in_page = models.BooleanField(default=True)
    by_mail = models.BooleanField(default=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "kind"], name="preference_once_per_kind")]

    def __str__(self) -> str:
        return f"{self.user}: {self.kind}"


class Notification(models.Model):
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="notifications")
    kind = models.CharField(max_length=8, choices=Kind.choices)
    text = models.CharField(max_length=300)
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="notifications", null=True)
    in_page = models.BooleanField(default=True)
    created_at = models.DateTimeField(auto_now_add=True)
    read_at = models.DateTimeField(null=True)

    objects = NotificationQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at", "-id"]
        indexes = [
            models.Index(fields=["user"], name="notification_unread", condition=Q(read_at__isnull=True, in_page=True)),
            models.Index(fields=["user", "-created_at"], name="notification_newest"),
        ]

    def __str__(self) -> str:
        return self.text


class Webhook(models.Model):
    """Where a team is told by a signed request."""

    team = models.OneToOneField(Team, on_delete=models.CASCADE, related_name="webhook")
    url = models.URLField(max_length=300)
    secret = models.CharField(max_length=64)
    active = models.BooleanField(default=True)
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"{self.team}: {self.url}"


class Delivery(models.Model):
    """One message to one address, by mail or to a webhook, sent until it is taken or given up."""

    class State(models.TextChoices):
        DUE = "due", "Waiting"
        SENT = "sent", "Sent"
        FAILED = "failed", "Given up"

    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    notification = models.OneToOneField(Notification, on_delete=models.CASCADE, related_name="mail", null=True)
    webhook = models.ForeignKey(Webhook, on_delete=models.CASCADE, related_name="deliveries", null=True)
    payload = models.JSONField(default=dict)
    state = models.CharField(max_length=6, choices=State.choices, default=State.DUE)
    attempts = models.PositiveSmallIntegerField(default=0)
    due_at = models.DateTimeField(db_default=Now())
    ended_at = models.DateTimeField(null=True)
    last_error = models.CharField(max_length=200, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    objects = DeliveryQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at", "-id"]
        verbose_name_plural = "deliveries"
        indexes = [models.Index(fields=["due_at"], name="delivery_due", condition=Q(state="due"))]
        constraints = [
            models.CheckConstraint(
                condition=Q(notification__isnull=False, webhook__isnull=True)
                | Q(notification__isnull=True, webhook__isnull=False),
                name="delivery_has_one_address",
            )
        ]

    def __str__(self) -> str:
        return f"{self.public_id} {self.state}"
