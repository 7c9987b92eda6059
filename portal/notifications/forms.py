from __future__ import annotations

from typing import Any

from django import forms

from portal.accounts.models import User
from portal.notifications.kinds import Kind
from portal.notifications.services import Switches

CHANNELS = {"in_page": "in the page", "by_mail": "by mail"}


class PreferenceForm(forms.Form):
    """Two switches for each kind."""

    def __init__(self, *args: Any, user: User, **named: Any) -> None:
        super().__init__(*args, **named)
        rows = {row.kind: row for row in user.preferences.all()}
        for kind in Kind:
            for channel, words in CHANNELS.items():
                initial = getattr(rows.get(kind), channel, True)
                field = forms.BooleanField(required=False, initial=initial, label=words.capitalize())
                self.fields[f"{kind}_{channel}"] = field

    @property
    def rows(self) -> list[tuple[str, list[forms.BoundField]]]:
        """Each kind in words, with its switches."""
        return [(kind.label, [self[f"{kind}_{channel}"] for channel in CHANNELS]) for kind in Kind]

    @property
    def switches(self) -> Switches:
        """What was chosen."""
        data = self.cleaned_data
        return {kind: (data[f"{kind}_in_page"], data[f"{kind}_by_mail"]) for kind in Kind}
