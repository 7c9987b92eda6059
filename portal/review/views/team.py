"""What a team does about a verdict of its own: appeal, and answer a question."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.http import require_POST

from portal.review.models import Decision
from portal.review.services import open_appeal, reply_to
from portal.runs.models import Run
from portal.runs.views import MemberRequest, get_run


def get_shared(request: MemberRequest, public_id: UUID) -> Run:
    """Return a run of the visitor's own team, or raise Http404."""
    run = get_run(request, public_id)
    if not run.is_of_team_of(request.user):
        raise Http404
    return run


@require_POST
@login_required
def appeal(request: MemberRequest, public_id: UUID) -> HttpResponse:
    """Object to the verdict of one's run."""
    run = get_shared(request, public_id)
    try:
        open_appeal(run=run, user=request.user, reason=request.POST.get("reason", ""))
    except ValidationError as error:
        messages.warning(request, error.messages[0])
    except PermissionDenied as error:
        messages.warning(request, str(error))
    else:
        messages.success(request, "Your appeal waits for a reviewer. Its state stands on this page.")
    return redirect("runs:run_detail", public_id=public_id)


@require_POST
@login_required
def reply(request: MemberRequest, public_id: UUID, decision: int) -> HttpResponse:
    """Answer a reviewer's question about one's run."""
    run = get_shared(request, public_id)
    question = get_object_or_404(Decision.objects.filter(kind=Decision.Kind.ASK), pk=decision, run=run)
    try:
        reply_to(decision=question, user=request.user, text=request.POST.get("text", ""))
    except ValidationError as error:
        messages.warning(request, error.messages[0])
    return redirect("runs:run_detail", public_id=public_id)
