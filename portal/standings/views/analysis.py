"""Levels, failures, comparisons and systems: the counted runs of one environment, cut in several ways."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from portal.catalog.models import Certificate, Environment, Task
from portal.runs.models import Run
from portal.standings.boards import Board, Measure, build_board, choose_measure, sort_rows
from portal.standings.charts import Rate, build_level_figure
from portal.standings.comparisons import FEWEST, MOST, build_comparison
from portal.standings.counts import FailureCount, Result, Tally, read_failures, read_stamp, read_tallies, remember
from portal.standings.failures import Column, FailureTable, build_failure_table, group_failures
from portal.standings.levels import LevelCell, LevelTargets, build_level_rows, describe_targets, share_failures
from portal.standings.models import Standing
from portal.standings.profiles import build_profile
from portal.standings.published import build_failure_rows, build_rows, load_snapshot
from portal.standings.selection import Selection, SelectionForm
from portal.standings.views.board import load_systems
from portal.systems.models import System

RUNS_SHOWN = 10


class Page:
    """The counted runs that a page is about: those of one environment, the asked one or the first with any."""

    def __init__(self, request: HttpRequest, **narrowing: Any) -> None:
        """Read the filters; `narrowing` says whose standings decide which environment is shown without one."""
        judged = Environment.objects.filter(standings__in=Standing.objects.filter(runs__gt=0, **narrowing)).distinct()
        first = judged.order_by("-timed", "-official", "title").first()
        default = first.slug if first else ""
        data = request.GET.copy()
        # The form shows its data, so an environment that was chosen for the visitor stands there too.
        data["environment"] = data.get("environment") or default
        self.form = SelectionForm(data)
        asked = self.form.read()
        self.selection = asked if asked.environment else asked.change(environment=default)
        self.stamp = read_stamp()
        self.environment = Environment.objects.filter(pk=self.selection.environment).first()

    def remember(self, name: str, compute: Callable[[], Result]) -> Result:
        """Return what `compute` gives, kept for this selection until the next verdict."""
        return remember(name, self.selection.change(sort=""), self.stamp, compute)

    @cached_property
    def tallies(self) -> list[Tally]:
        """The tallies of the page."""
        return self.remember("tallies", lambda: read_tallies(self.selection))

    @cached_property
    def board(self) -> Board:
        """The board of the page, without rows when nothing was judged."""
        environment = self.selection.environment
        if not self.tallies:
            return Board(environment, Measure.CLEARED, 0, [])
        return self.remember("board", lambda: build_board(environment, self.tallies))

    def read_failures(self) -> list[FailureCount]:
        """Return the failures of the page."""
        return self.remember("failures", lambda: read_failures(self.selection))

    def render(self, request: HttpRequest, template: str, **context: Any) -> HttpResponse:
        """Return the page with its filters."""
        return render(
            request,
            f"standings/{template}.html",
            {"form": self.form, "selection": self.selection, "environment": self.environment} | context,
        )


def order_systems(board: Board) -> list[System]:
    """Return the systems of a board in the order of their ranks."""
    systems = load_systems({row.system for row in board.rows})
    names = {key: system.name for key, system in systems.items()}
    return [systems[row.system] for row in sort_rows(board.rows, "", names)]


def read_targets(selection: Selection) -> dict[str, LevelTargets]:
    """Return what the certified targets of each level add up to."""
    certified = dict(
        Certificate.objects.filter(environment=selection.environment).values_list("task", "target").order_by()
    )
    levels: dict[str, list[float | None]] = {level: [] for level in Task.Level.values}
    for task, level in Task.objects.active().values_list("id", "level"):
        levels[level].append(certified.get(task))
    return {level: describe_targets(targets) for level, targets in levels.items()}


def build_systems_rows(
    systems: Iterable[System], rows: dict[int, list[LevelCell]], selection: Selection
) -> list[tuple[System, list[tuple[str, LevelCell, str]]]]:
    """Return each system with its cells: the level, the figures, and the address of their runs."""
    return [
        (
            system,
            [
                (level, cell, selection.link_runs(system=system.slug, level=level))
                for level, cell in zip(Task.Level.values, rows[system.pk], strict=True)
            ],
        )
        for system in systems
    ]


@require_safe
def show_levels(request: HttpRequest) -> HttpResponse:
    """Show how systems do at each level, how much headroom there is, and what fails."""
    page = Page(request)
    tallies, levels = page.tallies, Task.Level.values
    systems, rows = order_systems(page.board), build_level_rows(tallies, levels)
    measure = choose_measure(tallies)
    rates: dict[str, list[Rate | None]] = {system.name: [cell.rate for cell in rows[system.pk]] for system in systems}
    targets = read_targets(page.selection)
    return page.render(
        request,
        "levels",
        snapshot=load_snapshot(),
        levels=Task.Level.choices,
        measure=measure,
        rows=build_systems_rows(systems, rows, page.selection),
        figure=page.remember("figure", lambda: build_level_figure(levels, rates, measure)) if systems else None,
        targets=[(level, label, targets[level]) for level, label in Task.Level.choices],
        mix=share_failures(group_failures(page.read_failures()), levels),
    )


def build_tables(page: Page) -> list[tuple[str, FailureTable]]:
    """Return modes against systems, and modes against levels."""
    tallies, failures = page.tallies, page.read_failures()
    systems = [Column(system.pk, system.name, {"system": system.slug}) for system in order_systems(page.board)]
    found = {tally.level for tally in tallies}
    levels = [Column(level, level, {"level": level}) for level in Task.Level.values if level in found]
    return [
        ("system", build_failure_table(failures, tallies, systems, lambda count: count.system, page.selection)),
        ("level", build_failure_table(failures, tallies, levels, lambda count: count.level, page.selection)),
    ]


@require_safe
def show_failures(request: HttpRequest) -> HttpResponse:
    """Show how runs failed, and which were rejected though the stopwatch had them at or above target."""
    page = Page(request)
    snapshot = load_snapshot()
    tallies = page.tallies
    return page.render(
        request,
        "failures",
        snapshot=snapshot,
        published_rows=build_rows(snapshot),
        published_failures=build_failure_rows(snapshot),
        tables=build_tables(page) if tallies else [],
        rejected=sum(tally.rejected for tally in tallies),
        rejected_fast=sum(tally.rejected_fast for tally in tallies),
        passed=sum(tally.passed for tally in tallies),
        fast_query=page.selection.link_runs(fast="on"),
    )


@require_safe
def show_comparison(request: HttpRequest) -> HttpResponse:
    """Show two to four systems side by side, paired by task."""
    page = Page(request)
    tallies = page.tallies
    offered = order_systems(page.board)
    asked = list(dict.fromkeys(request.GET.getlist("systems")))
    by_slug = {system.slug: system for system in offered}
    chosen = [by_slug[slug] for slug in asked if slug in by_slug]
    comparison = None
    if FEWEST <= len(chosen) <= MOST:
        comparison = build_comparison(tallies, [system.pk for system in chosen])
    names = {system.pk: system for system in chosen}
    tasks = Task.objects.for_lists().in_bulk([row.task for row in comparison.tasks]) if comparison else {}
    return page.render(
        request,
        "compare",
        offered=offered,
        asked=asked,
        chosen=chosen,
        fewest=FEWEST,
        most=MOST,
        comparison=comparison,
        pairs=[(names[pair.first], names[pair.second], pair) for pair in comparison.pairs] if comparison else [],
        tasks=[(tasks[row.task], list(zip(chosen, row.cells, strict=True)), row.differs) for row in comparison.tasks]
        if comparison
        else [],
    )


@require_safe
def show_system(request: HttpRequest, slug: str) -> HttpResponse:
    """Show one system: where it stands, by level and family, how repeatable it is, and how it fails."""
    system = get_object_or_404(System.objects.select_related("scaffold", "team"), slug=slug)
    standings = list(system.standings.filter(runs__gt=0).select_related("environment"))
    runs = Run.objects.visible_to(request.user).filter(system=system)
    if not standings and not runs.exists():
        raise Http404
    page = Page(request, system=system)
    tallies = page.tallies
    own = [tally for tally in tallies if tally.system == system.pk]
    return page.render(
        request,
        "system",
        system=system,
        standings=standings,
        own_query=page.selection.link_runs(system=slug),
        runs=runs.for_lists()[:RUNS_SHOWN],
        **describe_system(page, slug, own, tallies) if own else {},
    )


def describe_system(page: Page, slug: str, own: list[Tally], everybody: list[Tally]) -> dict[str, Any]:
    """Return what the page of a system shows of its counted runs, `own`, of which there is at least one."""
    key = own[0].system
    failures = [count for count in page.read_failures() if count.system == key]
    levels = [level for level in Task.Level.values if any(tally.level == level for tally in own)]
    columns = [Column(level, level, {"level": level}) for level in levels]
    profile = build_profile(own, everybody)
    links = page.selection.change(level="", family="")
    return {
        "row": next(row for row in page.board.rows if row.system == key),
        "board": page.board,
        "profile": profile,
        "cuts": [
            ("Level", [(name, cell, links.link_runs(system=slug, level=name)) for name, cell in profile.levels]),
            ("Family", [(name, cell, links.link_runs(system=slug, family=name)) for name, cell in profile.families]),
        ],
        "table": build_failure_table(failures, own, columns, lambda count: count.level, page.selection, system=slug),
    }
