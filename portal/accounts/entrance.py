"""The addresses that allauth serves: its own names, our paths."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from allauth.account import views
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import include, path, re_path

from portal.accounts.adapter import MailUnavailable

View = Callable[..., HttpResponse]


def keep_whole(view: View) -> View:
    """Undo everything that `view` did when its mail cannot be sent, and say so."""

    @wraps(view)
    def answer(request: HttpRequest, *arguments: Any, **named: Any) -> HttpResponse:
        anonymous = not request.user.is_authenticated
        try:
            with transaction.atomic():
                return view(request, *arguments, **named)
        except MailUnavailable:
            if anonymous:
                request.session.flush()
            return render(request, "account/mail_unavailable.html", status=503)

    return answer


urlpatterns = [
    path("sign-in/", keep_whole(views.login), name="account_login"),
    path("sign-out/", views.logout, name="account_logout"),
    path("sign-up/", keep_whole(views.signup), name="account_signup"),
    path("account/inactive/", views.account_inactive, name="account_inactive"),
    path("account/reauthenticate/", views.reauthenticate, name="account_reauthenticate"),
    path("account/email/", keep_whole(views.email), name="account_email"),
    path("account/email/sent/", views.email_verification_sent, name="account_email_verification_sent"),
    re_path(r"^account/email/confirm/(?P<key>[-:\w]+)/$", views.confirm_email, name="account_confirm_email"),
    path("account/password/", keep_whole(views.password_change), name="account_change_password"),
    path("account/password/set/", keep_whole(views.password_set), name="account_set_password"),
    path("account/password/reset/", keep_whole(views.password_reset), name="account_reset_password"),
    path("account/password/reset/sent/", views.password_reset_done, name="account_reset_password_done"),
    re_path(
        r"^account/password/reset/(?P<uidb36>[0-9A-Za-z]+)-(?P<key>.+)/$",
        keep_whole(views.password_reset_from_key),
        name="account_reset_password_from_key",
    ),
    path(
        "account/password/reset/done/",
        views.password_reset_from_key_done,
        name="account_reset_password_from_key_done",
    ),
    path("account/second-factor/", include("allauth.mfa.urls")),
    path("account/sessions/", include("allauth.usersessions.urls")),
]
