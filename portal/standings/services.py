from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from django.db import transaction

from portal.runs.models import Run, Verdict
from portal.standings.counts import KEPT_FIGURES, Tally, count_failures, count_figures, merge_tallies, read_rows
from portal.standings.models import Standing, TaskStanding
from verifier.verdict import FailureCode


def _refresh_tasks(key: dict[str, Any], task_id: str | None) -> None:
    """Count again the runs of one task, or of all tasks, of one system in one environment."""
    narrowing = key if task_id is None else key | {"task_id": task_id}
    verdicts = Verdict.objects.current().filter(run__in=Run.objects.counted().filter(**narrowing))
    failures: dict[tuple[str, str], dict[str, int]] = {}
    for task, digest, code, count in count_failures(verdicts, "task", "task_digest"):
        failures.setdefault((task, digest), {})[code] = count
    rows = {
        (task, digest): TaskStanding(
            **key,
            task_id=task,
            task_digest=digest,
            failures=failures.get((task, digest), {}),
            **dict(zip(KEPT_FIGURES, figures, strict=True)),
        )
        for task, digest, *figures in count_figures(verdicts, "task", "task_digest")
    }
    TaskStanding.objects.bulk_create(
        rows.values(),
        update_conflicts=True,
        unique_fields=["environment", "system", "task", "task_digest"],
        update_fields=[*KEPT_FIGURES, "failures"],
    )
    known = TaskStanding.objects.filter(**narrowing)
    gone = [pk for pk, *row in known.values_list("pk", "task", "task_digest") if tuple(row) not in rows]
    known.filter(pk__in=gone).delete()


def _add_up(rows: Sequence[tuple[Tally, dict[str, int]]]) -> dict[str, Any]:
    """Return the figures of a system from those of its tasks. In the mean speedup every task weighs the same."""
    tasks = merge_tallies(tally for tally, _ in rows)
    sums = {
        name: sum(getattr(task, name) for task in tasks)
        for name in ("runs", "passed", "below_target", "rejected", "rejected_fast")
    }
    logs = [task.mean_log_speedup for task in tasks if task.mean_log_speedup is not None]
    modes: Counter[str] = Counter()
    for _, failures in rows:
        for code, count in failures.items():
            modes[FailureCode(code).mode] += count
    return sums | {
        "accepted": sums["runs"] - sums["passed"] - sums["below_target"] - sums["rejected"],
        "tasks": len(tasks),
        "tasks_covered": sum(task.cleared > 0 for task in tasks),
        "tasks_passed_once": sum(task.passed > 0 for task in tasks),
        "tasks_passed_twice": sum(task.passed > 1 for task in tasks),
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
    for name, value in _add_up(read_rows(**key)).items():
        setattr(standing, name, value)
    standing.save()
    return standing
