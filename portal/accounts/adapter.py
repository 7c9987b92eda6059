"""How allauth works here: mail that cannot be sent undoes what asked for it, and the trail records who signs in."""

from __future__ import annotations

import logging
from smtplib import SMTPException
from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from django.http import HttpRequest, HttpResponse

from portal.accounts.models import User
from portal.review.middleware import find_address
from portal.review.trail import record_event

logger = logging.getLogger(__name__)


class MailUnavailable(Exception):
    """The mail server did not take a message."""


class AccountAdapter(DefaultAccountAdapter):
    def send_mail(self, template_prefix: str, email: str, context: dict[str, Any]) -> None:
        """Send one message. Raises MailUnavailable."""
        try:
            super().send_mail(template_prefix, email, context)
        except (OSError, SMTPException) as error:
            logger.warning("Mail could not be sent: %s", error)
            raise MailUnavailable from error

    def get_client_ip(self, request: HttpRequest) -> str:
        """Return the address by which throttles count."""
        return find_address(request)

    def post_login(self, request: HttpRequest, user: User, **options: Any) -> HttpResponse:
        """Record who signed in."""
        response = super().post_login(request, user, **options)
        record_event(actor=user, action="account.sign_in", subject=user, request=request)
        return response

    def authentication_failed(self, request: HttpRequest, **credentials: Any) -> None:
        """Record a wrong password for an account that exists."""
        name = credentials.get("username") or ""
        user = User.objects.filter(username=name).first()
        if user:
            record_event(actor=None, action="account.sign_in_failed", subject=user, request=request)

    def logout(self, request: HttpRequest) -> None:
        """Record who signed out."""
        user = request.user
        super().logout(request)
        if isinstance(user, User):
            record_event(actor=user, action="account.sign_out", subject=user, request=request)
