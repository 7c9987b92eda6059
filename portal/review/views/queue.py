"""The queue of reviewers, and the trail."""

from __future__ import annotations

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from portal.review.forms import QueueForm
from portal.review.grouping import fingerprint_missing
from portal.review.models import Appeal, TrailEvent
from portal.review.permissions import for_reviewers
from portal.review.queue import list_reviewable, read_page
from portal.runs.views import MemberRequest

EVENTS_PER_PAGE = 100


@require_safe
@never_cache
@for_reviewers
def show_queue(request: MemberRequest) -> HttpResponse:
    """Show what waits for a reviewer."""
    form = QueueForm(request.GET, user=request.user)
    reviewable = list_reviewable(request.user)
    fingerprint_missing(reviewable)
    page, groups = read_page(form.narrow(reviewable), request.GET.get("page"))
    query = request.GET.copy()
    query.pop("page", None)
    context = {
        "form": form,
        "page": page,
        "groups": groups,
        "query": query.urlencode(),
        "appeals": Appeal.objects.open().count(),
    }
    return render(request, "review/queue.html", context)


@require_safe
@never_cache
@for_reviewers
def show_trail(request: HttpRequest) -> HttpResponse:
    """Show the trail, the newest first."""
    events = TrailEvent.objects.order_by("-number")
    action = request.GET.get("action", "").replace("\0", "")
    if action:
        events = events.filter(action=action)
    page = Paginator(events, EVENTS_PER_PAGE).get_page(request.GET.get("page"))
    actions = TrailEvent.objects.order_by("action").values_list("action", flat=True).distinct()
    return render(request, "review/trail.html", {"page": page, "action": action, "actions": actions})
