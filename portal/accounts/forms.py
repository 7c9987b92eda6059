from __future__ import annotations

from typing import Any

from allauth.account.forms import LoginForm
from django import forms

from portal.accounts.models import ApiToken, Membership
from portal.accounts.tokens import LIFETIMES_DAYS


class SignInForm(LoginForm):
    """Says which names it takes."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.fields["login"].label = "Username or e-mail address"
        for field in self.fields.values():
            # What a field is for stands above it; a placeholder would go as soon as one types.
            field.widget.attrs.pop("placeholder", None)


class TeamForm(forms.Form):
    name = forms.CharField(max_length=60, label="Name of the team", help_text="Shown on the board and on public runs.")


class InvitationForm(forms.Form):
    email = forms.EmailField(label="E-mail address")
    role = forms.ChoiceField(choices=Membership.Role.choices, initial=Membership.Role.MEMBER)


class TokenForm(forms.Form):
    name = forms.CharField(max_length=60, help_text="What uses it, such as the machine.")
    scope = forms.ChoiceField(choices=ApiToken.Scope.choices, label="What it may do")
    days = forms.TypedChoiceField(
        choices=[(days, f"{days} days") for days in LIFETIMES_DAYS], coerce=int, initial=90, label="Good for"
    )


class WebhookForm(forms.Form):
    url = forms.CharField(
        max_length=300,
        required=False,
        label="Address",
        help_text="An https address that everybody can reach. Leave it empty to end the calls.",
    )
