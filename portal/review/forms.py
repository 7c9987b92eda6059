"""The forms of review: what the queue shows, a decision, an appeal, a reply, many runs at once."""

from __future__ import annotations

from typing import Any

from django import forms
from django.db.models import Q
from django.db.models.functions import Now

from portal.accounts.models import User
from portal.catalog.models import Environment, Task
from portal.review.models import Decision
from portal.review.queue import Annotated
from portal.review.rulings import REJECTING
from portal.review.services import LONGEST_REASON, SHORTEST_REASON, Ruling
from portal.runs.forms import offer
from portal.runs.models import Run
from portal.runs.querysets import RunQuerySet
from portal.systems.models import System
from verifier.verdict import FailureCode, FailureMode, Outcome

_MODES = [
    (mode.value, mode.label.capitalize())
    for mode in FailureMode
    if mode not in (FailureMode.INFRASTRUCTURE, FailureMode.BELOW_TARGET)
]


class QueueForm(forms.Form):
    """What the queue shows. What is not understood narrows nothing."""

    kind = forms.ChoiceField(
        required=False,
        label="Show",
        choices=[("", "Everything"), ("appeals", "Appeals"), ("fast", "Rejected, though fast")],
    )
    held = forms.ChoiceField(
        required=False, label="Held", choices=[("", "By anybody"), ("free", "By nobody"), ("mine", "By me")]
    )
    mode = forms.ChoiceField(required=False, label="Failure", choices=[("", "All failures"), *_MODES])
    task = forms.ModelChoiceField(Task.objects.none(), required=False, empty_label="All tasks")
    environment = forms.ModelChoiceField(Environment.objects.all(), required=False, empty_label="All environments")
    pattern = forms.CharField(required=False, max_length=80, label="Flagged as")

    def __init__(self, *args: Any, user: User, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.user = user
        offer(self, "task", Task.objects.for_lists())

    def narrow(self, runs: Annotated) -> Annotated:
        """Return those of the reviewable `runs` that are asked for."""
        self.is_valid()
        data = self.cleaned_data
        chosen = {name: value for name in ("task", "environment") if (value := data.get(name))}
        runs = runs.filter(**chosen)
        if mode := data.get("mode"):
            runs = runs.failed_by(FailureMode(mode))
        if pattern := data.get("pattern"):
            runs = runs.filter(decisions__pattern__iexact=pattern).distinct()
        kinds = {"appeals": Q(has_appeal=True), "fast": Q(fast=1)}
        held = Q(case__assigned_until__gt=Now())
        holds = {
            "free": Q(case__isnull=True) | ~held | Q(case__assignee__isnull=True),
            "mine": held & Q(case__assignee=self.user),
        }
        for choice in (kinds.get(data.get("kind", "")), holds.get(data.get("held", ""))):
            runs = runs.filter(choice) if choice else runs
        return runs


class ReasonForm(forms.Form):
    """Why, in words that others read."""

    reason = forms.CharField(
        min_length=SHORTEST_REASON,
        max_length=LONGEST_REASON,
        widget=forms.Textarea(attrs={"rows": 5}),
        help_text=f"{SHORTEST_REASON} to {LONGEST_REASON:,} characters.",
    )


class AppealForm(ReasonForm):
    """A team's objection."""

    field_order = ["reason"]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["reason"].label = "Why the verdict is wrong"
        self.fields["reason"].help_text = "Say which check or figure is wrong, and why. Reviewers see the run's source."


class ReplyForm(forms.Form):
    """A team's answer to a question."""

    text = forms.CharField(max_length=LONGEST_REASON, label="Answer", widget=forms.Textarea(attrs={"rows": 4}))


class DecisionForm(ReasonForm):
    """What a reviewer decides about the verdict that the page showed."""

    kind = forms.ChoiceField(choices=Decision.Kind.choices, widget=forms.RadioSelect, label="Decision")
    ruling = forms.ChoiceField(
        required=False,
        label="When overturned, the run is",
        choices=[
            ("accept", "accepted: what was measured counts"),
            *((code.value, f"rejected: {code.value}, {code.mode.label}") for code in REJECTING),
        ],
    )
    pattern = forms.CharField(
        required=False, max_length=80, label="When flagged, the pattern", help_text="The same words for the same thing."
    )
    verdict_number = forms.IntegerField(widget=forms.HiddenInput)
    field_order = ["kind", "ruling", "pattern", "reason", "verdict_number"]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["reason"].label = "Reason, which the team reads"

    def read_ruling(self) -> Ruling:
        """Return what an overturned verdict becomes."""
        choice = self.cleaned_data.get("ruling") or "accept"
        return Ruling() if choice == "accept" else Ruling(FailureCode(choice))


class BatchForm(forms.Form):
    """Which runs to verify again. Everything that is given narrows."""

    environment = forms.ModelChoiceField(Environment.objects.all(), required=False, empty_label="All environments")
    task = forms.ModelChoiceField(Task.objects.none(), required=False, empty_label="All tasks")
    system = forms.ModelChoiceField(System.objects.all(), required=False, empty_label="All systems")
    outcome = forms.ChoiceField(
        required=False,
        choices=[
            ("", "All outcomes"),
            *((one.value, one.replace("_", " ").capitalize()) for one in Outcome if one is not Outcome.INFRASTRUCTURE),
        ],
    )
    code = forms.ChoiceField(
        required=False,
        label="Failure code",
        choices=[("", "All codes"), *((code.value, code.value) for code in FailureCode if not code.is_infrastructure)],
    )
    verifier = forms.CharField(required=False, max_length=60, label="Judged by verifier")
    worker = forms.CharField(required=False, max_length=120, label="Judged by worker")
    since = forms.DateTimeField(
        required=False,
        label="Judged since (UTC)",
        widget=forms.DateTimeInput(format="%Y-%m-%dT%H:%M", attrs={"type": "datetime-local"}),
    )
    before = forms.DateTimeField(
        required=False,
        label="Judged before (UTC)",
        widget=forms.DateTimeInput(format="%Y-%m-%dT%H:%M", attrs={"type": "datetime-local"}),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        offer(self, "task", Task.objects.for_lists())

    @property
    def chosen(self) -> dict[str, Any]:
        """What is asked for, by field. Raises no error: ask `is_valid` first."""
        return {name: value for name, value in self.cleaned_data.items() if value}

    @property
    def words(self) -> str:
        """What is asked for, as it is kept with the batch."""
        return ", ".join(f"{name} {value}" for name, value in self.chosen.items()) or "all runs"

    def find_runs(self) -> RunQuerySet:
        """Return the finished runs that are asked for."""
        paths = {
            "environment": "environment",
            "task": "task",
            "system": "system",
            "outcome": "verdict__outcome",
            "code": "verdict__primary_failure",
            "verifier": "verdict__verifier_version",
            # The beginning of its name is that of its host.
            "worker": "verdict__attempt__worker__startswith",
            "since": "verdict__created_at__gte",
            "before": "verdict__created_at__lt",
        }
        asked = {paths[name]: value for name, value in self.chosen.items()}
        return Run.objects.filter(state="finished", verdict__isnull=False, **asked)


class ConfirmationForm(ReasonForm):
    """The reason of a batch, and how many runs the administrator was shown."""

    expected = forms.IntegerField(min_value=1, widget=forms.HiddenInput)
