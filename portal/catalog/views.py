"""The list of tasks, and one task."""

from __future__ import annotations

from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from portal.catalog.markup import highlight_python, render_markdown
from portal.catalog.models import Environment, Task
from portal.runs.models import Run

RUNS_SHOWN = 20


@require_safe
def list_tasks(request: HttpRequest) -> HttpResponse:
    """Show every task that can be submitted for."""
    counts = Run.objects.visible_to(request.user).order_by().values_list("task").annotate(Count("id"))
    totals = dict(counts)
    tasks = [(task, totals.get(task.pk, 0)) for task in Task.objects.active().for_lists()]
    return render(request, "catalog/task_list.html", {"tasks": tasks})


@require_safe
def show_task(request: HttpRequest, slug: str) -> HttpResponse:
    """Show the contract of one task, its reference and its runs."""
    task = get_object_or_404(Task, slug=slug)
    runs = Run.objects.visible_to(request.user).filter(task=task).for_lists()[:RUNS_SHOWN]
    certificates = {certificate.environment_id: certificate for certificate in task.certificates.all()}
    context = {
        "task": task,
        "instruction": render_markdown(task.instruction),
        "reference": highlight_python(task.reference_source, "reference"),
        "dims": [(name, task.dims["timed"][name], task.dims["small"][name]) for name in task.dims["timed"]],
        "targets": [(environment, certificates.get(environment.pk)) for environment in Environment.objects.all()],
        "tensors": [("input", task.inputs), ("parameter", task.parameters), ("output", task.outputs)],
        "runs": runs,
    }
    return render(request, "catalog/task_detail.html", context)
