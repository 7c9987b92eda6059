"""Levels, failures and comparisons: the counted runs of one environment, cut in several ways."""

from __future__ import annotations

from collections.abc import Iterable

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from portal.catalog.models import Task
from portal.standings.boards import choose_measure
from portal.standings.charts import Rate, build_level_figure
from portal.standings.comparisons import FEWEST, MOST, build_comparison
from portal.standings.counts import read_fast_failures
from portal.standings.failures import Column, FailureTable, build_failure_table, group_failures
from portal.standings.levels import LevelCell, LevelTargets, build_level_rows, describe_targets, share_failures
from portal.standings.published import build_failure_rows, build_rows, load_snapshot
from portal.standings.selection import Selection
from portal.standings.views.page import Page
from portal.systems.models import System
from verifier.verdict import FailureMode

LONGEST_NAMED = 60


def read_targets(page: Page) -> dict[str, LevelTargets]:
    """Return what the certified targets of each level add up to."""
    levels: dict[str, list[float | None]] = {level: [] for level in Task.Level.values}
    for task in page.choices.tasks.values():
        if task.active:
            levels[task.level].append(page.targets.get(task.id))
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
    systems, rows = page.systems, build_level_rows(tallies, levels)
    measure = choose_measure(tallies)
    rates: dict[str, list[Rate | None]] = {system.name: [cell.rate for cell in rows[system.pk]] for system in systems}
    targets = read_targets(page)
    return page.render(
        request,
        "levels",
        snapshot=load_snapshot(),
        levels=Task.Level.choices,
        measure=measure,
        rows=build_systems_rows(systems, rows, page.selection),
        figure=page.remember("figure", lambda: build_level_figure(levels, rates, measure)) if systems else None,
        targets=[(level, label, targets[level]) for level, label in Task.Level.choices],
        mix=share_failures(group_failures(page.failures), levels),
    )


def build_tables(page: Page) -> list[tuple[str, FailureTable]]:
    """Return modes against systems, and modes against levels."""
    tallies, failures = page.figures
    systems = [Column(system.pk, system.name, {"system": system.slug}) for system in page.systems]
    found = {tally.level for tally in tallies}
    levels = [Column(level, level, {"level": level}) for level in Task.Level.values if level in found]
    return [
        ("system", build_failure_table(failures, tallies, systems, lambda count: count.system, page.selection)),
        ("level", build_failure_table(failures, tallies, levels, lambda count: count.level, page.selection)),
    ]


def list_fast_modes(page: Page) -> list[tuple[FailureMode, int, float, str]]:
    """Return why fast runs were rejected: the mode, its runs, their share, and their address."""
    if not any(tally.rejected_fast for tally in page.tallies):
        return []
    modes = page.remember("fast", lambda: read_fast_failures(page.selection))
    total = sum(runs for _, runs in modes)
    return [(mode, runs, runs / total, page.selection.link_runs(fast="on", mode=mode.value)) for mode, runs in modes]


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
        fast_modes=list_fast_modes(page),
    )


@require_safe
def show_comparison(request: HttpRequest) -> HttpResponse:
    """Show two to four systems side by side, paired by task."""
    page = Page(request)
    tallies = page.tallies
    offered = page.systems
    asked = list(dict.fromkeys(request.GET.getlist("systems")))
    by_slug = {system.slug: system for system in offered}
    chosen = [by_slug[slug] for slug in asked if slug in by_slug]
    # Whatever an address holds, a page names only a few short ones.
    missing = [slug[:LONGEST_NAMED] for slug in asked if slug not in by_slug][:MOST]
    comparison = None
    if FEWEST <= len(chosen) <= MOST:
        comparison = build_comparison(tallies, [system.pk for system in chosen])
    names = {system.pk: system for system in chosen}
    return page.render(
        request,
        "compare",
        offered=offered,
        asked=asked,
        chosen=chosen,
        missing=missing,
        fewest=FEWEST,
        most=MOST,
        comparison=comparison,
        pairs=[(names[pair.first], names[pair.second], pair) for pair in comparison.pairs] if comparison else [],
        tasks=[
            (page.choices.tasks[row.task], list(zip(chosen, row.cells, strict=True)), row.differs)
            for row in (comparison.tasks if comparison else [])
        ],
    )
