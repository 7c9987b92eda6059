from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib.auth.models import AnonymousUser
from django.db import models

if TYPE_CHECKING:
    from portal.accounts.models import User
    from portal.systems.models import System  # noqa: F401  the base class names it


class SystemQuerySet(models.QuerySet["System"]):
    def submittable_by(self, user: User | AnonymousUser) -> SystemQuerySet:
        """The systems for which `user` may submit runs: those of the user's teams, and all for administrators."""
        if not user.is_authenticated:
            return self.none()
        return self if user.is_superuser else self.filter(team__memberships__user_id=user.pk)
