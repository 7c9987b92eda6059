from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib.auth.models import AnonymousUser
from django.db import models
from django.db.models.functions import Now

if TYPE_CHECKING:
    from portal.accounts.models import User
    from portal.notifications.models import Delivery, Notification  # noqa: F401  the base classes name them


class NotificationQuerySet(models.QuerySet["Notification"]):
    def of(self, user: User | AnonymousUser) -> NotificationQuerySet:
        """What `user` is told in the page."""
        return self.filter(user_id=user.pk, in_page=True) if user.is_authenticated else self.none()

    def unread(self) -> NotificationQuerySet:
        """Those that were not read yet."""
        return self.filter(read_at__isnull=True)


class DeliveryQuerySet(models.QuerySet["Delivery"]):
    def due(self) -> DeliveryQuerySet:
        """What is to be sent now, the longest waiting first."""
        return self.filter(state="due", due_at__lte=Now()).order_by("due_at", "id")
