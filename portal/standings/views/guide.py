"""The style guide: every token and part of the pages, in both schemes. Its figures are invented."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django import forms
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from portal.catalog.markup import highlight_python
from portal.standings.charts import (
    Point,
    Rate,
    TaskPoint,
    build_distribution_figure,
    build_rate_figure,
    build_stopwatch_figure,
    build_task_figure,
)
from portal.standings.distributions import build_distribution

TOKENS = Path(settings.BASE_DIR) / "static" / "css" / "tokens.css"
SCHEMES = ("light", "dark")
SOURCE = """@triton.jit
def add_one(source, target, size, BLOCK: tl.constexpr):
    \"\"\"Add 1 to every element.\"\"\"
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    # Lanes beyond the end neither load nor store.
    value = tl.load(source + place, mask=place < size, other=0.0)
    tl.store(target + place, value + 1.0, mask=place < size)
"""
RATES = [Rate("Invented system 1", 62.0, 56.4, 67.3), Rate("Invented system 2", 31.0, 26.0, 36.4)]
POINTS = [Point("Counted", 1.7, counted=True), Point("Rejected", 27.9, counted=False)]
TASKS = [TaskPoint("First", "", 2.4, 2.0), TaskPoint("Second", "", 1.3, 1.6), TaskPoint("Third", "", None, 4.0)]
RESULTS = [("passed", 2.2), ("passed", 1.7), ("accepted", 1.4), ("below_target", 1.3), ("rejected", 5.5)]


@dataclass(frozen=True)
class Token:
    """One token of the style sheet, and how it is shown."""

    name: str
    value: str

    @property
    def kind(self) -> str:
        """What the token is: a colour, letters or a length."""
        if "light-dark" in self.value:
            return "swatch"
        return "letters" if self.name in ("serif", "sans", "mono") or self.name.startswith("step-") else "length"


class SampleForm(forms.Form):
    """One field of each kind."""

    text = forms.CharField(help_text="What is asked for stands above, help below.")
    number = forms.IntegerField(min_value=1, label="With an error")
    day = forms.DateField(widget=forms.DateInput(attrs={"type": "date"}), required=False)
    choice = forms.ChoiceField(choices=[("", "Nothing chosen"), ("L1", "L1 Single operator")], required=False)
    several = forms.MultipleChoiceField(
        choices=[("a", "The first"), ("b", "The second")], widget=forms.CheckboxSelectMultiple, required=False
    )
    one = forms.ChoiceField(choices=[("a", "Only me"), ("b", "Everybody")], widget=forms.RadioSelect, required=False)
    file = forms.FileField(required=False)
    lines = forms.CharField(widget=forms.Textarea(attrs={"rows": 3}), required=False)


def read_tokens() -> list[Token]:
    """Return every token of the style sheet, in its order."""
    return [
        Token(*found)
        for found in re.findall(r"^ +--([\w-]+): (.+);$", TOKENS.read_text(encoding="utf-8"), re.MULTILINE)
    ]


def describe_scheme(scheme: str, tokens: list[Token]) -> dict[str, Any]:
    """Return what is shown in one scheme. Everything with an id has the name of the scheme in it."""
    data = {"text": "A text", "number": "0", "choice": "L1", "several": ["a"], "one": "b", "lines": "Some lines"}
    return {
        "name": scheme,
        "kinds": [
            (kind, [token for token in tokens if token.kind == kind]) for kind in ("swatch", "letters", "length")
        ],
        "form": SampleForm(data, auto_id=f"{scheme}-%s"),
        "source": highlight_python(SOURCE, f"{scheme}-line", frozenset({4})),
        "charts": [
            (f"{scheme}-rates", "Rates with intervals", build_rate_figure(RATES, "Pass rate")),
            (f"{scheme}-stopwatch", "The stopwatch against what counted", build_stopwatch_figure(POINTS, 1.6, 9.0)),
            (f"{scheme}-tasks", "Speedups against targets", build_task_figure(TASKS)),
            (
                f"{scheme}-distribution",
                "Runs by speedup and outcome",
                build_distribution_figure(build_distribution(RESULTS, 1.6, 3.0)),
            ),
        ],
    }


@require_safe
def show_style(request: HttpRequest) -> HttpResponse:
    """Show what pages are made of."""
    tokens = read_tokens()
    schemes = [describe_scheme(scheme, tokens) for scheme in SCHEMES]
    return render(request, "standings/style.html", {"schemes": schemes})
