from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from django.db import transaction

from portal.runs.models import Run, Verdict
from portal.standings.counts import KEPT_FIGURES, count_failures, count_figures
from portal.standings.models import Standing, TaskStanding
from verifier.verdict import FailureCode


def _refresh_tasks(key: dict[str, Any], task_id: str | None) -> None:
    """Count again the runs of one task, or of all tasks, of one system in one environment."""
    narrowing = key if task_id is None else key | {"task_id": task_id}
    verdicts = Verdict.objects.current().filter(run__in=Run.objects.counted().filter(**narrowing))
    failures: dict[str, dict[str, int]] = {}
    for task, code, count in count_failures(verdicts, "task"):
        failures.setdefault(task, {})[code] = count
    rows = [
        TaskStanding(
            **key, task_id=task, failures=failures.get(task, {}), **dict(zip(KEPT_FIGURES, figures, strict=True))
        )
        for task, *figures in count_figures(verdicts, "task")
    ]
    TaskStanding.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=["environment", "system", "task"],
        update_fields=[*KEPT_FIGURES, "failures"],
    )
    TaskStanding.objects.filter(**narrowing).exclude(task__in=[row.task_id for row in rows]).delete()


def _add_up(rows: Sequence[TaskStanding]) -> dict[str, Any]:
    """Return the figures of a system from those of its tasks. In the mean speedup every task weighs the same."""
    sums = {
        name: sum(getattr(row, name) for row in rows)
        for name in ("runs", "passed", "below_target", "rejected", "rejected_fast")
    }
    logs = [row.mean_log_speedup for row in rows if row.mean_log_speedup is not None]
    modes: Counter[str] = Counter()
    for row in rows:
        for code, count in row.failures.items():
            modes[FailureCode(code).mode] += count
    return sums | {
        "accepted": sums["runs"] - sums["passed"] - sums["below_target"] - sums["rejected"],
        "tasks": len(rows),
        "tasks_covered": sum(row.cleared > 0 for row in rows),
        "tasks_passed_once": sum(row.passed > 0 for row in rows),
        "tasks_passed_twice": sum(row.passed > 1 for row in rows),
        "geometric_mean_speedup": math.exp(math.fsum(logs) / len(logs)) if logs else None,
        "failure_modes": dict(modes),
    }


@transaction.atomic
def refresh_standing(*, environment_id: str, system_id: int, task_id: str | None = None) -> Standing:
    """Count again what `system_id` achieved in `environment_id`: for the task that changed, or for all tasks."""
    key: dict[str, Any] = {"environment_id": environment_id, "system_id": system_id}
    Standing.objects.get_or_create(**key)
    # Of two verdicts at once the second waits here, and then counts the first too.
    standing = Standing.objects.select_for_update().get(**key)
    _refresh_tasks(key, task_id)
    for name, value in _add_up(list(TaskStanding.objects.filter(**key))).items():
        setattr(standing, name, value)
    standing.save()
    return standing
