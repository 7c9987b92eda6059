"""The form that takes a submission, and the one that narrows the list of runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from django import forms
from django.contrib.auth.models import AnonymousUser
from django.core.files.uploadedfile import UploadedFile
from django.db.models import QuerySet

from portal.accounts.models import User
from portal.catalog.models import Environment, Task
from portal.runs.models import Run
from portal.runs.querysets import RunQuerySet
from portal.runs.services import LONGEST_WALL_CLOCK
from portal.runs.states import State
from portal.runs.uploads import UploadError, check_file_name, decode_source
from portal.systems.models import System
from verifier.verdict import FailureMode, Outcome

if TYPE_CHECKING:
    EnvironmentChoice = forms.ModelChoiceField[Environment]
else:
    EnvironmentChoice = forms.ModelChoiceField


def offer(form: forms.Form, name: str, rows: QuerySet[Any]) -> None:
    """Let the field `name` of `form` choose among `rows`."""
    cast("forms.ModelChoiceField[Any]", form.fields[name]).queryset = rows


class VisibilityForm(forms.Form):
    """Who sees a run and its source."""

    visibility = forms.ChoiceField(
        choices=Run.Visibility.choices,
        initial=Run.Visibility.PUBLIC,
        widget=forms.RadioSelect,
        label="Who sees the run",
        help_text="Only runs that everybody sees enter the board.",
    )
    release_source = forms.BooleanField(
        required=False,
        label="Whoever sees the run may read its source too",
        help_text="Otherwise only you, your team and reviewers read the source.",
    )


class EnvironmentField(EnvironmentChoice):
    """Says with each environment whether a run would wait for a worker to start."""

    def label_from_instance(self, environment: Environment) -> str:
        """Return the name of an environment as it is offered."""
        # `served` notes it.
        staffed = getattr(environment, "has_worker", False)
        return environment.title if staffed else f"{environment.title} (no worker at work now)"


class SubmissionForm(VisibilityForm):
    """One solution, as a file or as pasted text."""

    task = forms.ModelChoiceField(Task.objects.none(), empty_label="Choose a task")
    environment = EnvironmentField(
        Environment.objects.none(), empty_label=None, help_text="Speed is measured only where there is a GPU."
    )
    system = forms.ModelChoiceField(System.objects.none(), empty_label=None)
    file = forms.FileField(
        required=False,
        allow_empty_file=True,
        label="Solution file",
        widget=forms.FileInput(attrs={"accept": ".py"}),
    )
    text = forms.CharField(
        required=False,
        strip=False,
        label="Or its text",
        widget=forms.Textarea(attrs={"spellcheck": "false", "autocapitalize": "off", "data-editor": True}),
    )

    wall_clock_minutes = forms.FloatField(
        required=False,
        min_value=0.1,
        max_value=LONGEST_WALL_CLOCK / 60,
        label="How long the agent worked, in minutes",
        help_text="You may leave it out. The board shows the mean.",
    )
    allow_duplicate = forms.BooleanField(required=False, label="Submit the same bytes again all the same")

    def __init__(self, *args: Any, user: User, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        offer(self, "task", Task.objects.active().for_lists())
        offer(self, "environment", Environment.objects.served())
        offer(self, "system", System.objects.submittable_by(user).distinct())

    def clean(self) -> dict[str, Any]:
        """Check what was submitted, and keep the text of a refused file for the next try."""
        data = super().clean() or {}
        upload, pasted = data.get("file"), data.get("text", "")
        if upload and pasted.strip():
            self.add_error("file", "Give a file or its text, not both.")
        elif upload:
            data["source"] = self.read_upload(upload)
        elif "text" not in self.errors:
            # Browsers send pasted lines with carriage returns.
            data["source"] = self.read_source("text", pasted.replace("\r\n", "\n").encode())
        if self.errors:
            self.keep_text(data)
        minutes = data.get("wall_clock_minutes")
        return data | {"wall_clock_seconds": None if minutes is None else round(60 * minutes)}

    def keep_text(self, data: dict[str, Any]) -> None:
        """Show the text of the file that was sent, which the browser does not send again."""
        if self.files.get("file") and data.get("source"):
            self.data = dict(self.data.items()) | {"text": data["source"]}

    def read_upload(self, upload: UploadedFile[bytes]) -> str:
        """Return the text of `upload`; add an error when its name or content is refused."""
        try:
            check_file_name(upload.name or "")
        except UploadError as error:
            self.add_error("file", str(error))
        return self.read_source("file", upload.read())

    def read_source(self, field: str, content: bytes) -> str:
        """Return the text of `content`, or an empty string after adding an error to `field`."""
        try:
            return decode_source(content)
        except UploadError as error:
            self.add_error(field, str(error))
            return ""


class RunFilterForm(forms.Form):
    """What to show in the list of runs. The hidden fields come from the figures of other pages that link here."""

    task = forms.ModelChoiceField(Task.objects.none(), required=False, empty_label="All tasks")
    system = forms.ModelChoiceField(
        System.objects.none(), required=False, empty_label="All systems", to_field_name="slug"
    )
    environment = forms.ModelChoiceField(Environment.objects.all(), required=False, empty_label="All environments")
    state = forms.ChoiceField(required=False, choices=[("", "All states"), *State.choices])
    outcome = forms.ChoiceField(
        required=False,
        choices=[("", "All outcomes")]
        + [
            (outcome.value, outcome.replace("_", " ").capitalize())
            for outcome in Outcome
            if outcome is not Outcome.INFRASTRUCTURE
        ],
    )
    mode = forms.ChoiceField(
        required=False,
        label="Failure",
        choices=[("", "All failures")]
        + [(mode.value, mode.label.capitalize()) for mode in FailureMode if mode is not FailureMode.INFRASTRUCTURE],
    )
    level = forms.ChoiceField(required=False, choices=Task.Level.choices, widget=forms.HiddenInput)
    family = forms.SlugField(required=False, widget=forms.HiddenInput)
    dtype = forms.SlugField(required=False, widget=forms.HiddenInput)
    release = forms.SlugField(required=False, widget=forms.HiddenInput)
    as_of = forms.DateField(required=False, input_formats=["%Y-%m-%d"], widget=forms.HiddenInput)
    failed = forms.BooleanField(required=False, widget=forms.HiddenInput)
    fast = forms.BooleanField(required=False, widget=forms.HiddenInput)
    counted = forms.BooleanField(required=False, widget=forms.HiddenInput)

    def __init__(self, *args: Any, user: User | AnonymousUser, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        visible = Run.objects.visible_to(user).order_by()
        offer(self, "task", Task.objects.for_lists())
        offer(self, "system", System.objects.filter(pk__in=visible.values("system")))

    def narrow(self, runs: RunQuerySet) -> RunQuerySet:
        """Return the `runs` that were asked for; a choice that does not exist narrows nothing."""
        self.is_valid()
        names = {
            "task": "task",
            "system": "system",
            "environment": "environment",
            "state": "state",
            "outcome": "verdict__outcome",
            "level": "task__level",
            "family": "task__family",
            "dtype": "task__dtype",
        }
        chosen = {names[name]: value for name, value in self.cleaned_data.items() if value and name in names}
        return self._narrow_verdicts(runs.filter(**chosen))

    def _narrow_verdicts(self, runs: RunQuerySet) -> RunQuerySet:
        data = self.cleaned_data
        if mode := data.get("mode"):
            runs = runs.failed_by(FailureMode(mode))
        if day := data.get("as_of"):
            runs = runs.judged_by(day)
        if release := data.get("release"):
            runs = runs.of_release(release)
        if data.get("failed"):
            runs = runs.failed()
        if data.get("fast"):
            runs = runs.rejected_fast()
        return runs.counted() if data.get("counted") else runs

    @property
    def words(self) -> str:
        """What the hidden fields leave out, in words; empty when they leave out nothing."""
        data = self.cleaned_data
        parts = [data.get("level"), data.get("family"), data.get("dtype")]
        parts.append(f"release {release}" if (release := data.get("release")) else "")
        parts.append(f"judged by {day} UTC" if (day := data.get("as_of")) else "")
        parts.append("failed in any way" if data.get("failed") else "")
        parts.append("rejected at or above the target" if data.get("fast") else "")
        parts.append("counted by the board" if data.get("counted") else "")
        return ", ".join(filter(None, parts))
