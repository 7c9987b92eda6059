from __future__ import annotations

from django import forms


class SystemForm(forms.Form):
    """A system: a model in a scaffold."""

    name = forms.CharField(max_length=60, help_text="As it stands on the board: the model, and how it was run.")
    vendor = forms.CharField(max_length=120, required=False, label="Who makes the model")
    scaffold = forms.CharField(
        max_length=60, required=False, help_text="The program around the model: its tools, prompts and loop."
    )
    version = forms.CharField(max_length=40, required=False, label="Version of the scaffold")
