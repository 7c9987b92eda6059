"""One case: everything that a decision needs, and the decision."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from portal.catalog.markup import highlight_python, split_lines
from portal.review.differences import compare_gates, compare_sources, compare_timings
from portal.review.forms import DecisionForm
from portal.review.grouping import fingerprint_source, list_similar
from portal.review.marks import find_marks
from portal.review.models import Case, Decision, TrailEvent
from portal.review.permissions import for_reviewers, may_decide
from portal.review.services import decide, release_case, take_case
from portal.review.trail import note_source_reading
from portal.runs.models import Run, Verdict
from portal.runs.report import build_report
from portal.runs.views import MemberRequest, draw_timing, get_run

OTHERS_SHOWN = 12
EVENTS_SHOWN = 200


def get_judged(request: HttpRequest, public_id: UUID) -> tuple[Run, Verdict]:
    """Return the run and the verdict that stands. Raises Http404 when there is none."""
    run = get_run(request, public_id)
    if run.verdict is None:
        raise Http404
    return run, run.verdict


def render_case(request: MemberRequest, run: Run, form: DecisionForm, status: int = 200) -> HttpResponse:
    """Return the page of one case."""
    note_source_reading(run=run, reader=request.user, request=request)
    fingerprint_source(source=run.source)
    report = build_report(run, request.user)
    marks = find_marks(run.source.text, report.verdict) if report.verdict else {}
    lines = split_lines(run.source.text)
    case = Case.objects.select_related("assignee").filter(run=run).first()
    same_task = Run.objects.filter(task=run.task_id, verdict__isnull=False).exclude(pk=run.pk)
    context = {
        "report": report,
        "timing_figure": draw_timing(report),
        "form": form,
        "case": case,
        "holds": case is not None and case.holder == request.user,
        "may_decide": may_decide(request.user, run),
        "source": highlight_python(run.source.text, "line", frozenset(marks)),
        "marks": [(number, lines[number - 1].strip()[:120], why) for number, why in marks.items()],
        "similar": list_similar(run).filter(verdict__isnull=False).for_lists()[:OTHERS_SHOWN],
        "others": same_task.for_lists()[:OTHERS_SHOWN],
        "appeals": run.appeals.select_related("opened_by", "decision"),
        "decisions": run.decisions.select_related("decided_by", "reply__written_by", "verdict", "result").defer(
            "verdict__body", "result__body"
        ),
        "events": TrailEvent.objects.about(run).order_by("-number")[:EVENTS_SHOWN],
        "patterns": Decision.objects.exclude(pattern="")
        .order_by("pattern")
        .values_list("pattern", flat=True)
        .distinct(),
    }
    return render(request, "review/case.html", context, status=status)


@require_safe
@never_cache
@for_reviewers
def show_case(request: MemberRequest, public_id: UUID) -> HttpResponse:
    """Show one case."""
    run, verdict = get_judged(request, public_id)
    return render_case(request, run, DecisionForm(initial={"verdict_number": verdict.number}))


@require_POST
@for_reviewers
def take(request: MemberRequest, public_id: UUID) -> HttpResponse:
    """Hold a case."""
    run, _ = get_judged(request, public_id)
    try:
        take_case(run=run, user=request.user)
    except (ValidationError, PermissionDenied) as error:
        messages.warning(request, error.messages[0] if isinstance(error, ValidationError) else str(error))
    return redirect("review:case", public_id=public_id)


@require_POST
@for_reviewers
def release(request: MemberRequest, public_id: UUID) -> HttpResponse:
    """Give a case back."""
    run, _ = get_judged(request, public_id)
    release_case(run=run, user=request.user)
    return redirect("review:queue")


@require_POST
@never_cache
@for_reviewers
def decide_case(request: MemberRequest, public_id: UUID) -> HttpResponse:
    """Take a decision; a refused one changes nothing and keeps what was typed."""
    run, _ = get_judged(request, public_id)
    if not may_decide(request.user, run):
        raise PermissionDenied
    form = DecisionForm(request.POST)
    if form.is_valid():
        data = form.cleaned_data
        try:
            decision = decide(
                run=run,
                user=request.user,
                kind=data["kind"],
                reason=data["reason"],
                verdict_number=data["verdict_number"],
                ruling=form.read_ruling(),
                pattern=data["pattern"],
            )
        except ValidationError as error:
            form.add_error(None, error)
        else:
            messages.success(request, f"{decision.get_kind_display()}: kept, and shown to the team.")
            return redirect("review:queue") if decision.closes else redirect("review:case", public_id=public_id)
    return render_case(request, run, form, 400)


@require_safe
@never_cache
@for_reviewers
def show_difference(request: MemberRequest, public_id: UUID, other_id: UUID) -> HttpResponse:
    """Show two runs of one task side by side."""
    (left, _), (right, _) = get_judged(request, public_id), get_judged(request, other_id)
    if left.task_id != right.task_id:
        raise Http404
    for run in (left, right):
        note_source_reading(run=run, reader=request.user, request=request)
    reports = [build_report(run, request.user) for run in (left, right)]
    verdicts = [report.verdict for report in reports if report.verdict]
    context = {
        "left": left,
        "right": right,
        "rows": compare_sources(left.source.text, right.source.text),
        "same": left.source_id == right.source_id,
        "checks": compare_gates(*verdicts),
        "timings": compare_timings(*verdicts),
    }
    return render(request, "review/difference.html", context)


@require_safe
@for_reviewers
def find_difference(request: MemberRequest, public_id: UUID) -> HttpResponse:
    """Lead from the form of a case to the comparison with the run that it names."""
    run, _ = get_judged(request, public_id)
    text = request.GET.get("with", "").strip().strip("/").rpartition("/")[2]
    candidates = Run.objects.filter(task=run.task_id, verdict__isnull=False).exclude(pk=run.pk)
    try:
        other = get_object_or_404(candidates, public_id=UUID(text))
    except (ValueError, Http404):
        messages.warning(request, "No other judged run of this task has that identifier.")
        return redirect("review:case", public_id=public_id)
    return redirect("review:difference", public_id=public_id, other_id=other.public_id)
