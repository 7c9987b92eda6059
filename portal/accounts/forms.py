from __future__ import annotations

from typing import Any

from allauth.account.forms import LoginForm


class SignInForm(LoginForm):
    """Says which names it takes."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.fields["login"].label = "Username or e-mail address"
        for field in self.fields.values():
            # What a field is for stands above it; a placeholder would go as soon as one types.
            field.widget.attrs.pop("placeholder", None)
