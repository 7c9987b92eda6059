from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any, cast

from django.db import transaction
from django.db.models import Count, F, Q, QuerySet

from portal.runs.models import Run, Verdict
from portal.standings.models import Standing
from portal.standings.statistics import geometric_mean
from verifier.verdict import FailureCode, Outcome


def _count_outcomes(verdicts: QuerySet[Verdict]) -> dict[str, int]:
    counts = {outcome: Count("id", filter=Q(outcome=outcome)) for outcome in Outcome if outcome != "infrastructure"}
    fast = Count("id", filter=Q(outcome=Outcome.REJECTED, measured_speedup__gte=F("target")))
    return verdicts.aggregate(runs=Count("id"), rejected_fast=fast, **counts)


def _count_tasks(verdicts: QuerySet[Verdict]) -> dict[str, int]:
    passed = Count("id", filter=Q(outcome=Outcome.PASSED))
    covered = Count("id", filter=~Q(outcome=Outcome.REJECTED))
    tasks = list(verdicts.values("run__task").order_by().annotate(passed=passed, covered=covered))
    return {
        "tasks": len(tasks),
        "tasks_covered": sum(task["covered"] > 0 for task in tasks),
        "tasks_passed_once": sum(task["passed"] > 0 for task in tasks),
        "tasks_passed_twice": sum(task["passed"] > 1 for task in tasks),
    }


def _count_failure_modes(verdicts: QuerySet[Verdict]) -> dict[str, int]:
    modes: Counter[str] = Counter()
    codes = verdicts.exclude(primary_failure="").values_list("primary_failure").order_by().annotate(Count("id"))
    for code, count in codes:
        modes[FailureCode(code).mode] += count
    return dict(modes)


def _average_speedup(verdicts: QuerySet[Verdict]) -> float | None:
    """The geometric mean over tasks of the geometric mean over a task's runs, so that every task weighs the same."""
    speedups: defaultdict[str, list[float]] = defaultdict(list)
    for task, speedup in verdicts.filter(speedup__gt=0).values_list("run__task", "speedup"):
        speedups[task].append(cast(float, speedup))
    return geometric_mean(map(geometric_mean, speedups.values())) if speedups else None


@transaction.atomic
def refresh_standing(*, environment_id: str, system_id: int) -> Standing:
    """Count again what `system_id` achieved in `environment_id`."""
    key: dict[str, Any] = {"environment_id": environment_id, "system_id": system_id}
    Standing.objects.get_or_create(**key)
    # Of two verdicts at once the second waits here, and then counts the first too.
    standing = Standing.objects.select_for_update().get(**key)
    verdicts = Verdict.objects.filter(run__in=Run.objects.counted().filter(**key))
    figures = _count_outcomes(verdicts) | _count_tasks(verdicts)
    for name, value in figures.items():
        setattr(standing, name, value)
    standing.failure_modes = _count_failure_modes(verdicts)
    standing.geometric_mean_speedup = _average_speedup(verdicts)
    standing.save()
    return standing
