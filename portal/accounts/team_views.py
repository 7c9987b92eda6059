"""A team's own pages. Nobody outside the team sees them, but staff."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import ValidationError
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from portal.accounts.forms import InvitationForm, TeamForm, WebhookForm
from portal.accounts.models import MANAGERS, Membership, Team
from portal.accounts.services import (
    accept_invitation,
    change_role,
    find_invitation,
    found_team,
    invite_member,
    remove_member,
    revoke_invitation,
)
from portal.accounts.views import MemberRequest, show_errors
from portal.notifications.models import Webhook
from portal.notifications.services import set_webhook
from portal.systems.forms import SystemForm
from portal.systems.models import System
from portal.systems.services import edit_system, found_system

BAD_REQUEST = 400
DELIVERIES_SHOWN = 10


def get_team(request: MemberRequest, slug: str) -> Team:
    """Return the team, or raise Http404 when the visitor may not see it."""
    return get_object_or_404(Team.objects.visible_to(request.user).distinct(), slug=slug)


def get_managed_team(request: MemberRequest, slug: str) -> Team:
    """Return the team that the visitor looks after, or raise Http404."""
    return get_object_or_404(Team.objects.managed_by(request.user), slug=slug)


def render_form(request: MemberRequest, form: forms.Form, **context: Any) -> HttpResponse:
    """Return a page with one form."""
    status = BAD_REQUEST if form.errors else 200
    return render(request, "accounts/form.html", {"form": form, **context}, status=status)


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def found(request: MemberRequest) -> HttpResponse:
    """Found a team."""
    form = TeamForm(request.POST if request.method == "POST" else None)
    if form.is_valid():
        try:
            team = found_team(user=request.user, name=form.cleaned_data["name"])
        except ValidationError as error:
            show_errors(form, error)
        else:
            return redirect("accounts:team", slug=team.slug)
    return render_form(request, form, title="Found a team", button="Found it")


def build_team_context(request: MemberRequest, team: Team) -> dict[str, Any]:
    """Return what the team's page shows to the visitor."""
    own = team.memberships.filter(user=request.user).first()
    webhook = Webhook.objects.filter(team=team).first()
    return {
        "team": team,
        "own": own,
        "manages": own is not None and own.role in MANAGERS,
        "owns": own is not None and own.role == Membership.Role.OWNER,
        "memberships": team.memberships.select_related("user").order_by("-role", "user__username"),
        "roles": Membership.Role.choices,
        "invitations": team.invitations.open(),
        "invitation_form": InvitationForm(),
        "systems": team.systems.select_related("scaffold"),
        "webhook": webhook,
        "webhook_form": WebhookForm(initial={"url": webhook.url if webhook else ""}),
        "deliveries": webhook.deliveries.all()[:DELIVERIES_SHOWN] if webhook else [],
    }


@require_safe
@login_required
def show_team(request: MemberRequest, slug: str) -> HttpResponse:
    """Show the members, the systems and the invitations of a team."""
    return render(request, "accounts/team.html", build_team_context(request, get_team(request, slug)))


@require_POST
@login_required
def invite(request: MemberRequest, slug: str) -> HttpResponse:
    """Invite somebody by mail."""
    team = get_managed_team(request, slug)
    form = InvitationForm(request.POST)
    if form.is_valid():
        try:
            invitation = invite_member(team=team, user=request.user, **form.cleaned_data)
        except ValidationError as error:
            show_errors(form, error)
        else:
            messages.success(request, f"An invitation is on its way to {invitation.email}.")
            return redirect("accounts:team", slug=slug)
    context = build_team_context(request, team) | {"invitation_form": form}
    return render(request, "accounts/team.html", context, status=BAD_REQUEST)


@require_POST
@login_required
def withdraw(request: MemberRequest, slug: str, public_id: str) -> HttpResponse:
    """Withdraw an invitation."""
    team = get_managed_team(request, slug)
    revoke_invitation(invitation=get_object_or_404(team.invitations, public_id=public_id), user=request.user)
    return redirect("accounts:team", slug=slug)


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
@never_cache
def answer_invitation(request: MemberRequest, signed: str) -> HttpResponse:
    """Show what an invitation is to, and accept it."""
    invitation = find_invitation(signed)
    if invitation is None:
        return render(request, "accounts/invitation_gone.html", status=410)
    if request.method == "POST":
        try:
            accept_invitation(invitation=invitation, user=request.user)
        except ValidationError as error:
            messages.warning(request, error.messages[0])
        return redirect("accounts:team", slug=invitation.team.slug)
    return render(request, "accounts/invitation.html", {"invitation": invitation})


def _get_membership(team: Team, username: str) -> Membership:
    return get_object_or_404(team.memberships.select_related("user"), user__username=username)


@require_POST
@login_required
def set_role(request: MemberRequest, slug: str, username: str) -> HttpResponse:
    """Give a member another role."""
    team = get_managed_team(request, slug)
    member = _get_membership(team, username).user
    try:
        change_role(team=team, user=request.user, member=member, role=request.POST.get("role", ""))
    except ValidationError as error:
        messages.warning(request, error.messages[0])
    return redirect("accounts:team", slug=slug)


@require_POST
@login_required
def remove(request: MemberRequest, slug: str, username: str) -> HttpResponse:
    """Remove a member, or leave the team."""
    team = get_team(request, slug)
    member = _get_membership(team, username).user
    try:
        remove_member(team=team, user=request.user, member=member)
    except ValidationError as error:
        messages.warning(request, error.messages[0])
        return redirect("accounts:team", slug=slug)
    return redirect("accounts:home") if member == request.user else redirect("accounts:team", slug=slug)


@require_POST
@login_required
def choose_webhook(request: MemberRequest, slug: str) -> HttpResponse:
    """Set or end the webhook; the new secret stands in this one answer only."""
    team = get_managed_team(request, slug)
    form, secret = WebhookForm(request.POST), ""
    if form.is_valid():
        try:
            webhook = set_webhook(team=team, user=request.user, url=form.cleaned_data["url"])
            secret = webhook.secret if webhook else ""
        except ValidationError as error:
            show_errors(form, error)
    context = build_team_context(request, team) | {"webhook_form": form, "webhook_secret": secret}
    return render(request, "accounts/team.html", context, status=BAD_REQUEST if form.errors else 200)


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def add_system(request: MemberRequest, slug: str) -> HttpResponse:
    """Create a system of the team."""
    team = get_managed_team(request, slug)
    form = SystemForm(request.POST if request.method == "POST" else None)
    if form.is_valid():
        try:
            found_system(user=request.user, team=team, **form.cleaned_data)
        except ValidationError as error:
            show_errors(form, error)
        else:
            return redirect("accounts:team", slug=slug)
    return render_form(request, form, title="A new system", button="Create it", team=team)


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def change_system(request: MemberRequest, slug: str, system: str) -> HttpResponse:
    """Change what a system is called."""
    team = get_managed_team(request, slug)
    row = team.systems.select_related("scaffold", "team").filter(slug=system).first()
    if row is None:
        raise Http404
    form = SystemForm(request.POST if request.method == "POST" else None, initial=describe_form(row))
    if form.is_valid():
        try:
            edit_system(user=request.user, system=row, **form.cleaned_data)
        except ValidationError as error:
            show_errors(form, error)
        else:
            return redirect("accounts:team", slug=slug)
    return render_form(request, form, title=f"Change {row.slug}", button="Save", team=team)


def describe_form(system: System) -> dict[str, str]:
    """Return what the form starts with."""
    scaffold = system.scaffold
    names = {"scaffold": scaffold.name, "version": scaffold.version} if scaffold else {}
    return {"name": system.name, "vendor": system.vendor, **names}
