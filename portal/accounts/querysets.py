from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib.auth.models import AnonymousUser
from django.db import models

if TYPE_CHECKING:
    from portal.accounts.models import Team, User  # noqa: F401  the base class names Team


class TeamQuerySet(models.QuerySet["Team"]):
    def of(self, user: User | AnonymousUser) -> TeamQuerySet:
        """The teams that `user` is a member of."""
        return self.filter(memberships__user_id=user.pk) if user.is_authenticated else self.none()
