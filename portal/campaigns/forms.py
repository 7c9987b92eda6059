from __future__ import annotations

from typing import Any

from django import forms

from portal.accounts.models import User
from portal.catalog.models import Environment
from portal.runs.forms import EnvironmentField, VisibilityForm, offer
from portal.systems.models import System


class DraftForm(VisibilityForm):
    """What a campaign is of, before it has files."""

    system = forms.ModelChoiceField(System.objects.none(), empty_label=None)
    environment = EnvironmentField(
        Environment.objects.none(), empty_label=None, help_text="Speed is measured only where there is a GPU."
    )
    title = forms.CharField(
        max_length=120, required=False, label="Title", help_text="How your team tells it from its other campaigns."
    )

    def __init__(self, *args: Any, user: User, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        offer(self, "environment", Environment.objects.served())
        offer(self, "system", System.objects.submittable_by(user).distinct())


class ConfirmationForm(forms.Form):
    """The word to queue the runs, for the draft that was looked at."""

    digest = forms.CharField(max_length=64, widget=forms.HiddenInput)
    allow_duplicates = forms.BooleanField(required=False, label="Submit them again all the same")
