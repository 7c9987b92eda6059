"""What the pages about one environment share: their filters, and the counted runs that these leave."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from portal.catalog.models import Certificate, Environment
from portal.standings.boards import Board, Measure, build_board, sort_rows
from portal.standings.counts import (
    FailureCount,
    Result,
    StandingLine,
    Tally,
    read_figures,
    read_standings,
    remember,
    stamp_standings,
)
from portal.standings.selection import SelectionForm, read_choices
from portal.standings.views.board import load_systems
from portal.systems.models import System


def choose_environment(standings: list[StandingLine], environments: Mapping[str, Environment]) -> str:
    """Return the environment to show when none is asked for: a judged one, one with timing first; empty for none."""
    judged = {standing.environment for standing in standings if standing.runs}
    known = [environments[slug] for slug in judged]
    first = min(known, key=lambda one: (not one.timed, not one.official, one.title), default=None)
    return first.slug if first else ""


class Page:
    """The counted runs that a page is about: those of one environment, the asked one or the first with any."""

    def __init__(self, request: HttpRequest, *, system: int | None = None) -> None:
        """Read the filters; with `system`, its standings decide which environment is shown without one."""
        self.choices = read_choices()
        self.standings = read_standings()
        self.stamp = stamp_standings(self.standings)
        own = [standing for standing in self.standings if system in (None, standing.system)]
        default = choose_environment(own, self.choices.environments)
        data = request.GET.copy()
        # The form shows its data, so an environment that was chosen for the visitor stands there too.
        data["environment"] = data.get("environment") or default
        self.form = SelectionForm(data, choices=self.choices)
        asked = self.form.read()
        self.selection = asked if asked.environment else asked.change(environment=default)
        self.environment = self.choices.environments.get(self.selection.environment)

    def remember(self, name: str, compute: Callable[[], Result]) -> Result:
        """Return what `compute` gives, kept for this selection until the next verdict."""
        return remember(name, self.selection.change(sort=""), self.stamp, compute)

    @cached_property
    def figures(self) -> tuple[list[Tally], list[FailureCount]]:
        """The tallies and the failures of the page."""
        return self.remember("figures", lambda: read_figures(self.selection))

    @property
    def tallies(self) -> list[Tally]:
        return self.figures[0]

    @property
    def failures(self) -> list[FailureCount]:
        return self.figures[1]

    @cached_property
    def board(self) -> Board:
        """The board of the page, without rows when nothing was judged."""
        environment = self.selection.environment
        if not self.tallies:
            return Board(environment, Measure.CLEARED, 0, [])
        return self.remember("board", lambda: build_board(environment, self.tallies))

    @cached_property
    def systems(self) -> list[System]:
        """The systems of the board in the order of their ranks."""
        systems = load_systems({row.system for row in self.board.rows})
        names = {key: system.name for key, system in systems.items()}
        return [systems[row.system] for row in sort_rows(self.board.rows, "", names)]

    @cached_property
    def targets(self) -> dict[str, float | None]:
        """The certified targets of the environment by task; None where a certificate says that there is none."""
        certificates = Certificate.objects.filter(environment=self.selection.environment).order_by()
        return dict(certificates.values_list("task", "target"))

    def render(self, request: HttpRequest, template: str, **context: Any) -> HttpResponse:
        """Return the page with its filters."""
        shared = {"form": self.form, "selection": self.selection, "environment": self.environment}
        return render(request, f"standings/{template}.html", shared | context)
