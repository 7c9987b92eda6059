from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlencode

from allauth.account.authentication import get_authentication_records
from allauth.mfa.models import Authenticator
from allauth.mfa.utils import is_mfa_enabled
from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from portal.accounts.models import User

GetResponse = Callable[[HttpRequest], HttpResponse]
# Where an account is set up, and how to leave it.
_LEAVING = ("/sign-out/", "/healthz/", "/static/")
_OPEN = ("/account/", *_LEAVING)


def lacks_second_factor(user: User | AnonymousUser) -> bool:
    """Return whether `user` is a reviewer or an administrator who has no second factor yet."""
    if not user.is_authenticated or not (user.is_staff or user.is_superuser):
        return False
    return settings.SECOND_FACTOR_REQUIRED and not is_mfa_enabled(user)


def began_without_it(request: HttpRequest) -> bool:
    """Return whether a reviewer's session began with less than a second factor, such as before there was one."""
    user = request.user
    if not user.is_authenticated or not (user.is_staff or user.is_superuser) or not settings.SECOND_FACTOR_REQUIRED:
        return False
    # Signing in always leaves a record.
    records = get_authentication_records(request, user)
    return bool(records) and not any(record["method"] == "mfa" for record in records) and is_mfa_enabled(user)


def find_proof(user: User | AnonymousUser) -> str:
    """Return the address where `user` shows the second factor that there is."""
    coded = is_mfa_enabled(user, [Authenticator.Type.TOTP])
    return reverse("mfa_reauthenticate" if coded else "mfa_reauthenticate_webauthn")


class SecondFactorMiddleware:
    """Lead reviewers and administrators to where they set up a second factor, and show it, before they see a page."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if not request.path.startswith(_OPEN) and lacks_second_factor(request.user):
            return redirect(reverse("accounts:second_factor"))
        # Not even the account's own pages: whoever has the password alone could remove the second factor there.
        if not request.path.startswith(_LEAVING) and began_without_it(request):
            proof = find_proof(request.user)
            if request.path != proof:
                return redirect(f"{proof}?{urlencode({'next': request.path})}")
        return self.get_response(request)
