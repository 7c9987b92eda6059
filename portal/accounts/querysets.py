from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib.auth.models import AnonymousUser
from django.db import models
from django.db.models.functions import Now

if TYPE_CHECKING:
    from portal.accounts.models import ApiToken, Invitation, Team, User  # noqa: F401  the base classes name them


class TeamQuerySet(models.QuerySet["Team"]):
    def of(self, user: User | AnonymousUser) -> TeamQuerySet:
        """The teams that `user` is a member of."""
        return self.filter(memberships__user_id=user.pk) if user.is_authenticated else self.none()

    def managed_by(self, user: User | AnonymousUser) -> TeamQuerySet:
        """The teams that `user` looks after as an owner or a maintainer."""
        if not user.is_authenticated:
            return self.none()
        return self.filter(memberships__user=user, memberships__role__in=["owner", "maintainer"])

    def visible_to(self, user: User | AnonymousUser) -> TeamQuerySet:
        """The teams whose page `user` may see: own ones, and all for staff."""
        return self if user.is_authenticated and user.is_staff else self.of(user)


class InvitationQuerySet(models.QuerySet["Invitation"]):
    def open(self) -> InvitationQuerySet:
        """Those that can still be accepted."""
        return self.filter(accepted_at__isnull=True, revoked_at__isnull=True, expires_at__gt=Now())


class TokenQuerySet(models.QuerySet["ApiToken"]):
    def kept(self) -> TokenQuerySet:
        """Those that were not revoked; some may have expired."""
        return self.filter(revoked_at__isnull=True)
