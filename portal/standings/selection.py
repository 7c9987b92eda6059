"""Which runs a page counts, as its address says it. The same for pages, exports and the feed."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from datetime import date
from typing import Any, NamedTuple, cast
from urllib.parse import urlencode

from django import forms

from portal.catalog.models import Environment, Release, ReleasedTask, Task
from portal.runs.querysets import RunQuerySet

# What a board can be ordered by, with the words of its column.
SORTS = {
    "": "Rate",
    "system": "System",
    "runs": "Runs",
    "tasks": "Tasks",
    "once": "Solved once",
    "twice": "Solved twice",
    "speedup": "Speedup",
    "capture": "Capture",
    "fast": "Rejected, though fast",
    "clock": "Wall-clock",
}
PRECISIONS = ("fp32", "fp16")


@dataclass(frozen=True)
class Selection:
    """What was asked for; an empty field leaves nothing out."""

    environment: str = ""
    level: str = ""
    family: str = ""
    dtype: str = ""
    release: str = ""
    as_of: date | None = None
    sort: str = ""

    @property
    def query(self) -> str:
        """The address of this selection after the question mark, without what is not asked for."""
        return urlencode({name: str(value) for name, value in asdict(self).items() if value})

    @property
    def words(self) -> str:
        """What is left out, for a caption; empty when nothing is."""
        parts = [self.level, self.family, self.dtype]
        parts.append(f"release {self.release}" if self.release else "")
        parts.append(f"judged by {self.as_of} UTC" if self.as_of else "")
        return ", ".join(filter(None, parts))

    def change(self, **changes: Any) -> Selection:
        """Return the same selection with some fields changed."""
        return replace(self, **changes)

    def link_runs(self, **narrower: str) -> str:
        """Return the address, after the question mark, of the runs that a figure of this selection counts."""
        fields = {name: value for name, value in asdict(self).items() if name != "sort"} | narrower
        return urlencode({"counted": "on"} | {name: str(value) for name, value in fields.items() if value})

    @property
    def conditions(self) -> dict[str, Any]:
        """What a run, or a row by task, has to fulfil, apart from the date."""
        paths = {"environment": "environment", "level": "task__level", "family": "task__family", "dtype": "task__dtype"}
        found = {path: value for name, path in paths.items() if (value := getattr(self, name))}
        if self.release:
            found["task_digest__in"] = ReleasedTask.objects.filter(release=self.release).values("digest")
        return found

    def narrow(self, runs: RunQuerySet) -> RunQuerySet:
        """Return those of `runs` that are asked for."""
        runs = runs.filter(**self.conditions)
        return runs.judged_by(self.as_of) if self.as_of else runs


class TaskLine(NamedTuple):
    """What tables and filters show of a task."""

    id: str
    slug: str
    title: str
    level: str
    family: str
    active: bool


@dataclass(frozen=True)
class Choices:
    """What a board can be narrowed to. Read once a page, which needs the same rows for its tables."""

    environments: dict[str, Environment]
    tasks: dict[str, TaskLine]
    releases: list[Release]

    @property
    def families(self) -> list[str]:
        return sorted({task.family for task in self.tasks.values()})


def read_choices() -> Choices:
    """Return everything that is known now."""
    environments = Environment.objects.only("title", "timed", "official").in_bulk()
    tasks = (TaskLine(*row) for row in Task.objects.values_list(*TaskLine._fields))
    return Choices(environments, {task.id: task for task in tasks}, list(Release.objects.all()))


class SelectionForm(forms.Form):
    """The filters of a board. What is not understood is said, and narrows nothing."""

    environment = forms.ChoiceField(required=False)
    level = forms.ChoiceField(
        required=False,
        choices=[("", "All levels"), *((value, f"{value} {label}") for value, label in Task.Level.choices)],
    )
    family = forms.ChoiceField(required=False)
    dtype = forms.ChoiceField(
        required=False, label="Precision", choices=[("", "All precisions"), *((name, name) for name in PRECISIONS)]
    )
    release = forms.ChoiceField(required=False)
    as_of = forms.DateField(
        required=False,
        label="As of (UTC)",
        input_formats=["%Y-%m-%d"],
        widget=forms.DateInput(format="%Y-%m-%d", attrs={"type": "date"}),
    )
    sort = forms.ChoiceField(required=False, choices=SORTS.items(), widget=forms.HiddenInput)

    def __init__(self, *args: Any, choices: Choices, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        environments = choices.environments.values()
        self._offer("environment", "All environments", [(one.slug, one.title) for one in environments])
        self._offer("family", "All families", [(name, name) for name in choices.families])
        self._offer("release", "All releases", [(release.slug, str(release)) for release in choices.releases])

    def _offer(self, name: str, nothing: str, choices: list[tuple[str, str]]) -> None:
        cast(forms.ChoiceField, self.fields[name]).choices = [("", nothing), *choices]

    def say_what_fits(self, name: str) -> str:
        """Return what the field `name` takes, in words."""
        field = self.fields[name]
        if not isinstance(field, forms.ChoiceField):
            return "write a day as 2026-01-31"
        choices = cast("list[tuple[str, str]]", field.choices)
        return f"choose one of {', '.join(value for value, _ in choices if value)}"

    def read(self) -> Selection:
        """Return what was asked for, as far as it is understood."""
        self.is_valid()
        return Selection(**{name: value for name, value in self.cleaned_data.items() if value})
