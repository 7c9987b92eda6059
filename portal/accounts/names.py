"""What a username may look like: it is shown on public pages, so it must not pass for another one."""

from __future__ import annotations

from django.core.validators import RegexValidator

USERNAME_VALIDATORS = [
    RegexValidator(
        r"\A[A-Za-z0-9][A-Za-z0-9_.-]{1,39}\Z",
        "Use 2 to 40 Latin letters, digits, dots, hyphens and underscores, and begin with a letter or a digit.",
    )
]
