"""Submit a solution, watch its run, read its verdict."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import ValidationError
from django.core.paginator import Paginator
from django.http import FileResponse, Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe
from django_htmx.http import HttpResponseStopPolling

from portal.accounts.models import Team, User
from portal.catalog.markup import highlight_python
from portal.catalog.models import Task
from portal.review.trail import note_source_reading
from portal.runs.forms import RunFilterForm, SubmissionForm, VisibilityForm
from portal.runs.models import Run
from portal.runs.quotas import Quota, read_quota
from portal.runs.report import Report, build_report, read_verdict
from portal.runs.sample_solutions import SAMPLES, find_sample
from portal.runs.services import DuplicateRun, cancel_run, set_visibility, submit_run
from portal.runs.uploads import SOURCE_CAP, list_hints
from portal.standings.charts import build_timing_figure

RUNS_PER_PAGE = 50
# What a form gives to the service.
SUBMITTED = (
    *("task", "environment", "system", "source", "visibility", "release_source"),
    *("wall_clock_seconds", "allow_duplicate"),
)


class MemberRequest(HttpRequest):
    """A request of somebody who has signed in."""

    user: User


def get_run(request: HttpRequest, public_id: UUID) -> Run:
    """Return the run, or raise Http404 when there is none that the visitor may see."""
    runs = Run.objects.visible_to(request.user)
    joined = runs.select_related(
        "task", "environment", "system__scaffold", "team", "source", "verdict", "submitted_by", "campaign"
    )
    return get_object_or_404(joined.defer("task__instruction", "task__reference_source"), public_id=public_id)


def find_initial(request: HttpRequest) -> dict[str, Any]:
    """Return what the form starts with: a task that was asked for, or an earlier run to submit again."""
    task = request.GET.get("task", "")
    try:
        earlier = UUID(request.GET.get("from", ""))
    except ValueError:
        return {"task": task}
    run = get_run(request, earlier)
    readable = run.source_readable_by(request.user)
    if readable:
        note_source_reading(run=run, reader=request.user, request=request)
    text = run.source.text if readable else ""
    return {"task": run.task_id, "system": run.system_id, "environment": run.environment_id, "text": text}


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def submit_solution(request: MemberRequest) -> HttpResponse:
    """Take a solution; a refused one changes nothing and keeps what was typed."""
    if request.method != "POST":
        form = SubmissionForm(user=request.user, initial=find_initial(request))
        return render_submission(request, form, 200)
    form = SubmissionForm(request.POST, request.FILES, user=request.user)
    if not form.is_valid():
        return render_submission(request, form, 400)
    data = form.cleaned_data
    try:
        run = submit_run(user=request.user, **{name: data[name] for name in SUBMITTED})
    except DuplicateRun as duplicate:
        form.keep_text(data)
        return render_submission(request, form, 409, duplicate=duplicate)
    except ValidationError as error:
        form.keep_text(data)
        form.add_error(None, error)
        return render_submission(request, form, 400)
    for hint in list_hints(data["source"]):
        if not hint.passed:
            messages.warning(request, f"Nothing in the text {hint.label}. The run is judged all the same.")
    return redirect("runs:run_detail", public_id=run.public_id)


def list_quotas(user: User) -> list[tuple[Team, Quota]]:
    """Return what is left to each team of `user` that has a system to submit for."""
    teams = Team.objects.filter(memberships__user=user, systems__isnull=False).distinct()
    return [(team, read_quota(team)) for team in teams]


def render_submission(request: MemberRequest, form: SubmissionForm, status: int, **more: Any) -> HttpResponse:
    """Return the submit page with what is left to the teams, and the samples with the tasks that they are for."""
    tasks = Task.objects.for_lists().in_bulk([sample.task_id for sample in SAMPLES])
    samples = [(sample, tasks.get(sample.task_id)) for sample in SAMPLES]
    context = {"form": form, "samples": samples, "cap": SOURCE_CAP, "quotas": list_quotas(request.user), **more}
    return render(request, "runs/submit.html", context, status=status)


@require_safe
def download_sample(_request: HttpRequest, name: str) -> FileResponse:
    """Send a sample solution as a text file."""
    sample = find_sample(name)
    if sample is None or not sample.path.is_file():
        raise Http404
    return FileResponse(
        sample.path.open("rb"), as_attachment=True, filename=sample.path.name, content_type="text/plain"
    )


@require_safe
def list_runs(request: HttpRequest) -> HttpResponse:
    """Show the runs that the visitor may see, the newest first."""
    form = RunFilterForm(request.GET, user=request.user)
    runs = form.narrow(Run.objects.visible_to(request.user)).for_lists()
    page = Paginator(runs, RUNS_PER_PAGE).get_page(request.GET.get("page"))
    query = request.GET.copy()
    query.pop("page", None)
    return render(request, "runs/run_list.html", {"page": page, "form": form, "query": query.urlencode()})


def draw_timing(report: Report) -> dict[str, Any] | None:
    """Return the chart of every timed call, the submission last, or None when nothing was timed."""
    if report.speed is None:
        return None
    sides = {side.label: side.record.samples for side in report.speed.sides}
    return build_timing_figure(sides, report.speed.timing.floor_milliseconds)


@require_safe
@never_cache
def show_run(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """Show one run: where it is, what each gate saw, and its source to those who may read it."""
    run = get_run(request, public_id)
    readable = run.source_readable_by(request.user)
    if readable:
        note_source_reading(run=run, reader=request.user, request=request)
    report = build_report(run, request.user)
    context = {
        "report": report,
        "timing_figure": draw_timing(report),
        "owned": run.is_owned_by(request.user),
        "visibility_form": VisibilityForm(
            initial={"visibility": run.visibility, "release_source": run.source_released}
        ),
        "readable": readable,
        "source": highlight_python(run.source.text, "line") if readable else "",
    }
    return render(request, "runs/run_detail.html", context)


@require_safe
@never_cache
def show_status(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """Return the part of a run page that changes: nothing while it is as the page has it, and for the last time at the end."""
    run = get_run(request, public_id)
    report = build_report(run, request.user)
    if request.GET.get("seen") == report.version:
        return HttpResponse(status=204)
    context = {
        "report": report,
        "owned": run.is_owned_by(request.user),
        "readable": run.source_readable_by(request.user),
    }
    page = render(request, "runs/_status.html", context)
    return HttpResponseStopPolling(page.content) if run.is_terminal else page


@require_safe
def download_verdict(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """Send the verdict as JSON."""
    run = get_run(request, public_id)
    if run.verdict is None:
        raise Http404
    verdict = read_verdict(run, run.verdict, request.user)
    response = JsonResponse(verdict.model_dump(mode="json"), json_dumps_params={"indent": 2})
    response["Content-Disposition"] = f'attachment; filename="verdict-{run.public_id}.json"'
    return response


@require_safe
def download_source(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """Send what was submitted, as a text file, to those who may read it."""
    run = get_run(request, public_id)
    if not run.source_readable_by(request.user):
        raise Http404
    note_source_reading(run=run, reader=request.user, request=request)
    response = HttpResponse(run.source.text, content_type="text/plain; charset=utf-8")
    response["Content-Disposition"] = 'attachment; filename="solution.py"'
    return response


@require_POST
@login_required
def cancel(request: MemberRequest, public_id: UUID) -> HttpResponse:
    """Stop a run of one's own."""
    run = get_run(request, public_id)
    if not run.is_owned_by(request.user):
        raise Http404
    try:
        cancel_run(run=run, user=request.user)
    except ValidationError as error:
        messages.warning(request, error.message)
    return redirect("runs:run_detail", public_id=run.public_id)


@require_POST
@login_required
def change_visibility(request: MemberRequest, public_id: UUID) -> HttpResponse:
    """Change who sees a run of one's own, and its source."""
    run = get_run(request, public_id)
    if not run.is_owned_by(request.user):
        raise Http404
    form = VisibilityForm(request.POST)
    if not form.is_valid():
        messages.warning(request, "Choose who sees the run.")
        return redirect("runs:run_detail", public_id=run.public_id)
    try:
        set_visibility(run=run, user=request.user, **form.cleaned_data)
    except ValidationError as error:
        messages.warning(request, error.messages[0])
    return redirect("runs:run_detail", public_id=run.public_id)
