"""An account's own pages. Signing in and what belongs to it is allauth's (`entrance`)."""

from __future__ import annotations

from allauth.mfa.utils import is_mfa_enabled
from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from portal.accounts.forms import TokenForm
from portal.accounts.models import User
from portal.accounts.tokens import create_token, revoke_token


class MemberRequest(HttpRequest):
    """A request of somebody who has signed in."""

    user: User


def show_errors(form: forms.Form, error: ValidationError) -> None:
    """Put what a service refused beside the fields that it names."""
    named = error.message_dict if hasattr(error, "error_dict") else {"": error.messages}
    for field, texts in named.items():
        for text in texts:
            form.add_error(field if field in form.fields else None, text)


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


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
@never_cache
def manage_tokens(request: MemberRequest) -> HttpResponse:
    """List the tokens and make one, whose secret stands in this one answer only."""
    form, secret = TokenForm(request.POST if request.method == "POST" else None), ""
    if form.is_valid():
        try:
            _, secret = create_token(user=request.user, **form.cleaned_data)
        except ValidationError as error:
            show_errors(form, error)
        else:
            form = TokenForm()
    tokens = request.user.tokens.kept()
    context = {"form": form, "tokens": tokens, "secret": secret, "now": timezone.now()}
    return render(request, "accounts/tokens.html", context, status=400 if form.errors else 200)


@require_POST
@login_required
def revoke(request: MemberRequest, number: int) -> HttpResponse:
    """Revoke a token of one's own."""
    token = get_object_or_404(request.user.tokens, pk=number)
    revoke_token(token=token, user=request.user)
    messages.success(request, f"The token {token.name} opens nothing any more.")
    return redirect("accounts:tokens")
