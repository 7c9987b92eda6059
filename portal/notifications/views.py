from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.functional import SimpleLazyObject
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from portal.accounts.views import MemberRequest
from portal.notifications.forms import PreferenceForm
from portal.notifications.models import Notification
from portal.notifications.services import mark_read, set_preferences
from portal.runs.models import Run

PER_PAGE = 50


def count_unread(request: HttpRequest) -> dict[str, Any]:
    """Tell every page how many messages are unread; asked only where it is shown."""
    return {"unread_messages": SimpleLazyObject(lambda: Notification.objects.of(request.user).unread().count())}


@require_safe
@login_required
def list_notifications(request: MemberRequest) -> HttpResponse:
    """Show what the visitor was told, the newest first; a run that is hidden from them by now has no link."""
    told = Notification.objects.of(request.user).select_related("run")
    page = Paginator(told, PER_PAGE).get_page(request.GET.get("page"))
    visible = Run.objects.visible_to(request.user).filter(pk__in=[row.run_id for row in page])
    context = {"page": page, "visible": set(visible.values_list("pk", flat=True))}
    return render(request, "notifications/list.html", context)


@require_POST
@login_required
def read_all(request: MemberRequest) -> HttpResponse:
    """Note that everything was read."""
    mark_read(user=request.user)
    return redirect("notifications:list")


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def choose(request: MemberRequest) -> HttpResponse:
    """Choose what to be told, and how."""
    form = PreferenceForm(request.POST if request.method == "POST" else None, user=request.user)
    if form.is_valid():
        set_preferences(user=request.user, switches=form.switches)
        messages.success(request, "Saved.")
        return redirect("notifications:preferences")
    return render(request, "notifications/preferences.html", {"form": form})
