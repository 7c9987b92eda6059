"""An account's own pages. Signing in and what belongs to it is allauth's (`entrance`)."""

from __future__ import annotations

from allauth.mfa.utils import is_mfa_enabled
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_safe

from portal.accounts.models import User


class MemberRequest(HttpRequest):
    """A request of somebody who has signed in."""

    user: User


@require_safe
@login_required
def show_account(request: MemberRequest) -> HttpResponse:
    """Show what belongs to the account, with the ways to change it."""
    memberships = request.user.memberships.select_related("team").order_by("team__name")
    context = {"memberships": memberships, "second_factor": is_mfa_enabled(request.user)}
    return render(request, "accounts/home.html", context)


@require_safe
@login_required
def require_second_factor(request: MemberRequest) -> HttpResponse:
    """Say why a second factor is needed, and lead to it."""
    if is_mfa_enabled(request.user):
        return redirect("accounts:home")
    return render(request, "accounts/second_factor.html")
