from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from django.contrib.auth.models import AnonymousUser
from django.db import models
from django.db.models import Count, Q

if TYPE_CHECKING:
    from portal.accounts.models import User
    from portal.campaigns.models import Campaign  # noqa: F401  the base class names it


class CampaignQuerySet(models.QuerySet["Campaign"]):
    def visible_to(self, user: User | AnonymousUser) -> CampaignQuerySet:
        """The campaigns that `user` may see: those of the user's teams, and for staff what was submitted."""
        if not user.is_authenticated:
            return self.none()
        own = Q(team__in=user.memberships.values("team"))
        return self.filter(own | Q(state="submitted") if user.is_staff else own)

    def drafts(self) -> CampaignQuerySet:
        """The campaigns that nobody has confirmed or discarded yet."""
        return self.filter(state="draft")

    def untouched_since(self, moment: datetime) -> CampaignQuerySet:
        """The campaigns that nobody has changed after `moment`."""
        return self.filter(changed_at__lt=moment)

    def for_lists(self) -> CampaignQuerySet:
        """Join and count what a list shows, the newest first."""
        joined = self.select_related("system", "team", "environment", "created_by")
        counted = joined.annotate(file_count=Count("files", distinct=True), run_count=Count("runs", distinct=True))
        return counted.order_by("-created_at", "-id")
