"""All systems with public runs, and one of them."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from portal.catalog.models import Environment, Task
from portal.runs.models import Run
from portal.standings.charts import TaskPoint, build_task_figure
from portal.standings.counts import Tally, read_standings
from portal.standings.failures import Column, build_failure_table
from portal.standings.profiles import TaskResult, build_profile, build_task_results
from portal.standings.views.page import Page
from portal.systems.models import System

RUNS_SHOWN = 10


@require_safe
def list_systems(request: HttpRequest) -> HttpResponse:
    """Show every system with public runs, with its counts in each environment."""
    judged = [standing for standing in read_standings() if standing.runs]
    systems = System.objects.select_related("scaffold", "team").in_bulk({standing.system for standing in judged})
    environments = Environment.objects.only("title", "timed").in_bulk()
    rows = [(systems[one.system], environments[one.environment], one) for one in judged]
    rows.sort(key=lambda row: (row[0].name.casefold(), row[0].pk, not row[1].timed, row[1].title))
    return render(request, "standings/systems.html", {"rows": rows, "count": len(systems)})


@require_safe
def show_system(request: HttpRequest, slug: str) -> HttpResponse:
    """Show one system: where it stands, by level, family and task, how repeatable it is, and how it fails."""
    system = get_object_or_404(System.objects.select_related("scaffold", "team"), slug=slug)
    runs = Run.objects.visible_to(request.user).filter(system=system)
    latest = list(runs.for_lists()[:RUNS_SHOWN])
    page = Page(request, system=system.pk)
    standings = [standing for standing in page.standings if standing.system == system.pk and standing.runs]
    if not standings and not latest:
        raise Http404
    own = [tally for tally in page.tallies if tally.system == system.pk]
    return page.render(
        request,
        "system",
        system=system,
        standings=[(page.choices.environments[standing.environment], standing) for standing in standings],
        own_query=page.selection.link_runs(system=slug),
        runs=latest,
        **describe_system(page, slug, own) if own else {},
    )


def describe_system(page: Page, slug: str, own: list[Tally]) -> dict[str, Any]:
    """Return what the page of a system shows of its counted runs, `own`, of which there is at least one."""
    key = own[0].system
    failures = [count for count in page.failures if count.system == key]
    levels = [level for level in Task.Level.values if any(tally.level == level for tally in own)]
    columns = [Column(level, level, {"level": level}) for level in levels]
    profile = build_profile(own, page.tallies)
    results = build_task_results(own, profile.measure, page.targets)
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
        "tasks": [
            (page.choices.tasks[one.task], one, page.selection.link_runs(system=slug, task=one.task)) for one in results
        ],
        "task_figure": draw_tasks(page, results),
    }


def draw_tasks(page: Page, results: list[TaskResult]) -> dict[str, Any] | None:
    """Return the chart of speedups against targets, or None when nothing was timed."""
    points = [TaskPoint(one.task, page.choices.tasks[one.task].title, one.speedup, one.target) for one in results]
    return build_task_figure(points) if any(point.speedup for point in points) else None
