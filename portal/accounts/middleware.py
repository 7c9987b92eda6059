from __future__ import annotations

from collections.abc import Callable

from allauth.mfa.utils import is_mfa_enabled
from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from portal.accounts.models import User

GetResponse = Callable[[HttpRequest], HttpResponse]
# Where an account is set up, and how to leave it.
_OPEN = ("/account/", "/sign-out/", "/healthz/", "/static/")


def lacks_second_factor(user: User | AnonymousUser) -> bool:
    """Return whether `user` is a reviewer or an administrator who has no second factor yet."""
    if not user.is_authenticated or not (user.is_staff or user.is_superuser):
        return False
    return settings.SECOND_FACTOR_REQUIRED and not is_mfa_enabled(user)


class SecondFactorMiddleware:
    """Lead reviewers and administrators without a second factor to the page where they set one up."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if not request.path.startswith(_OPEN) and lacks_second_factor(request.user):
            return redirect(reverse("accounts:second_factor"))
        return self.get_response(request)
