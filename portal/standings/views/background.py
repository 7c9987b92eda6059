"""How runs are judged, what a submission must hold to, and the spotlight."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from portal.catalog.models import Environment, Task
from portal.runs.labels import GATE_EXPLANATIONS
from portal.standings import contract, statistics
from portal.standings.charts import Point, build_stopwatch_figure
from portal.standings.failures import GROUPS, FailureGroup
from portal.standings.spotlight import (
    Archetype,
    PublishedSpotlight,
    list_recorded_environments,
    load_archetypes,
    load_published,
)
from verifier.reward import REWARD_VERSION
from verifier.verdict import FailureCode, FailureMode, Outcome, rank_failures


@require_safe
def show_methodology(request: HttpRequest) -> HttpResponse:
    """Show gates, outcomes and failure codes as the verifier defines them, and how figures are made."""
    ranked = list(enumerate(rank_failures(list(FailureCode)), 1))
    failures = [(mode, [(rank, code) for rank, code in ranked if code.mode is mode]) for mode in FailureMode]
    groups = [(group, [mode for mode in FailureMode if GROUPS.get(mode) is group]) for group in FailureGroup]
    context = {
        "failures": failures,
        "gates": GATE_EXPLANATIONS.items(),
        "outcomes": list(Outcome),
        "groups": groups,
        "resamples": statistics.RESAMPLES,
        "fewest_tasks": statistics.FEWEST_TASKS,
    }
    return render(request, "standings/methodology.html", context)


@require_safe
def show_contract(request: HttpRequest) -> HttpResponse:
    """Show what a submission must hold to, in the verifier's own figures."""
    context = {
        "file_size": contract.describe_file(),
        "limits": contract.list_limits(),
        "facts": contract.list_gate_facts(),
        "certification": contract.list_certification(),
        "codes": contract.list_codes(),
        "bands": contract.list_reward_bands(),
        "rewards": contract.list_rewards(),
        "reward_version": REWARD_VERSION,
        "environments": contract.describe_environments(Environment.objects.all()),
    }
    return render(request, "standings/contract.html", context)


def list_published_points(published: PublishedSpotlight) -> list[Point]:
    """Return the published runs that were timed, those alike as one point; an unknown speedup as a lower bound."""
    return [
        Point(
            f"{runs.count} runs: {runs.kind}" if runs.count > 1 else runs.kind,
            runs.speedup or published.slowest,
            counted=runs.passed,
            at_least=runs.speedup is None,
        )
        for runs in published.runs
        if runs.timed
    ]


def list_recorded_points(archetypes: list[Archetype]) -> list[Point]:
    """Return our own runs that were timed."""
    return [
        Point(item.recorded.name, item.verdict.measured_speedup, counted=item.verdict.speedup is not None)
        for item in archetypes
        if item.verdict and item.verdict.measured_speedup
    ]


def find_floor_speedup(archetypes: list[Archetype]) -> float | None:
    """Return the speedup that the hardware permits at most, as the first timed run has it; None without a floor."""
    for item in archetypes:
        timing = item.verdict.evidence.timing if item.verdict else None
        if timing and timing.floor_milliseconds:
            return timing.sides[timing.baseline].mean / timing.floor_milliseconds
    return None


@dataclass(frozen=True)
class RecordedGroup:
    """Our own runs in one environment, or in none while nothing has been measured."""

    environment: Environment | None
    archetypes: list[Archetype]

    @property
    def figure(self) -> dict[str, Any] | None:
        """What the stopwatch said against what counted, when something was timed."""
        points = list_recorded_points(self.archetypes)
        target = next((item.verdict.target for item in self.archetypes if item.verdict), None)
        return build_stopwatch_figure(points, target, find_floor_speedup(self.archetypes)) if points else None


@require_safe
def show_spotlight(request: HttpRequest) -> HttpResponse:
    """Show one task as a story: the runs as they were published, and ours beside them."""
    published = load_published()
    environments = Environment.objects.filter(slug__in=list_recorded_environments())
    groups = [RecordedGroup(environment, load_archetypes(environment.slug)) for environment in environments]
    context = {
        "published": published,
        "task": Task.objects.for_lists().filter(id=published.task).first(),
        "figure": build_stopwatch_figure(list_published_points(published), published.target),
        "groups": groups or [RecordedGroup(None, load_archetypes(None))],
    }
    return render(request, "standings/spotlight.html", context)
