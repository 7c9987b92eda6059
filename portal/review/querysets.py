from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import models

if TYPE_CHECKING:
    from portal.review.models import Appeal, TrailEvent  # noqa: F401  base classes name them


def name_subject(subject: models.Model) -> dict[str, str]:
    """Return how the trail names a row: by its public identifier where it has one."""
    identifier = getattr(subject, "public_id", None) or subject.pk
    return {"subject_type": subject._meta.label_lower, "subject_id": str(identifier)}  # noqa: SLF001  Django's own API


class TrailEventQuerySet(models.QuerySet["TrailEvent"]):
    def about(self, subject: models.Model) -> TrailEventQuerySet:
        """The events about one row, the oldest first."""
        return self.filter(**name_subject(subject)).order_by("number")


class AppealQuerySet(models.QuerySet["Appeal"]):
    def open(self) -> AppealQuerySet:
        """The appeals that no decision has answered."""
        return self.filter(decision__isnull=True)
