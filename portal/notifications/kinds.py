"""What people are told of. Each kind can be switched off, in the page and by mail."""

from __future__ import annotations

from django.db import models


class Kind(models.TextChoices):
    VERDICT = "verdict", "A run of yours has its verdict, or could not be judged"
    APPEAL = "appeal", "An appeal of your team is opened or taken up"
    DECISION = "decision", "A reviewer decides on a run of your team, or asks about it"
