"""The list of tasks, and one task."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.core.paginator import Paginator
from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from portal.catalog.markup import highlight_python, render_markdown
from portal.catalog.models import Certificate, Environment, Task
from portal.runs.models import Run
from portal.standings.charts import build_distribution_figure
from portal.standings.distributions import Distribution, build_distribution

RUNS_PER_PAGE = 20


@dataclass(frozen=True)
class Results:
    """What became of the public runs of a task in one environment."""

    environment: Environment
    distribution: Distribution

    @property
    def figure(self) -> dict[str, Any] | None:
        """The chart of the runs that were timed."""
        return build_distribution_figure(self.distribution) if self.distribution.bins else None


def read_results(task: Task, targets: Iterable[tuple[Environment, Certificate | None]]) -> list[Results]:
    """Return the results of `task` in each environment where a public run was judged."""
    judged: dict[str, list[tuple[str, float | None]]] = {}
    rows = Run.objects.counted().filter(task=task).order_by()
    for environment, outcome, speedup in rows.values_list(
        "environment_id", "verdict__outcome", "verdict__measured_speedup"
    ):
        judged.setdefault(environment, []).append((str(outcome), speedup))
    return [
        Results(
            environment,
            build_distribution(
                judged[environment.pk],
                certificate.target if certificate else None,
                certificate.floor_speedup if certificate else None,
            ),
        )
        for environment, certificate in targets
        if environment.pk in judged
    ]


@require_safe
def list_tasks(request: HttpRequest) -> HttpResponse:
    """Show every task that can be submitted for."""
    counts = Run.objects.visible_to(request.user).order_by().values_list("task").annotate(Count("id"))
    totals = dict(counts)
    tasks = [(task, totals.get(task.pk, 0)) for task in Task.objects.active().for_lists()]
    return render(request, "catalog/task_list.html", {"tasks": tasks})


@require_safe
def show_task(request: HttpRequest, slug: str) -> HttpResponse:
    """Show the contract of one task, its reference, how its runs did, and all of them."""
    task = get_object_or_404(Task, slug=slug)
    runs = Run.objects.visible_to(request.user).filter(task=task).for_lists()
    certificates = {certificate.environment_id: certificate for certificate in task.certificates.all()}
    targets = [(environment, certificates.get(environment.pk)) for environment in Environment.objects.all()]
    context = {
        "task": task,
        "instruction": render_markdown(task.instruction),
        "reference": highlight_python(task.reference_source, "reference"),
        "dims": [(name, task.dims["timed"][name], task.dims["small"][name]) for name in task.dims["timed"]],
        "targets": targets,
        "tensors": [("input", task.inputs), ("parameter", task.parameters), ("output", task.outputs)],
        "results": read_results(task, targets),
        "page": Paginator(runs, RUNS_PER_PAGE).get_page(request.GET.get("page")),
    }
    return render(request, "catalog/task_detail.html", context)
