"""How allauth works here: mail that cannot be sent undoes what asked for it, and the trail records what is done with accounts."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from smtplib import SMTPException
from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.internal.flows.login import record_authentication
from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.usersessions.adapter import DefaultUserSessionsAdapter
from allauth.usersessions.models import UserSession
from django.db.models import Q
from django.forms import BaseForm
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
        named = Q(username__iexact=credentials.get("username") or "")
        if email := credentials.get("email"):
            named |= Q(emailaddress__email__iexact=email)
        user = User.objects.filter(named).first()
        if user:
            record_event(actor=None, action="account.sign_in_failed", subject=user, request=request)

    def logout(self, request: HttpRequest) -> None:
        """Record who signed out."""
        user = request.user
        super().logout(request)
        if isinstance(user, User):
            record_event(actor=user, action="account.sign_out", subject=user, request=request)

    def save_user(self, request: HttpRequest, user: User, form: BaseForm, commit: bool = True) -> User:  # noqa: FBT001, FBT002  as it is called
        """Record a new account."""
        saved: User = super().save_user(request, user, form, commit)
        if commit:
            record_event(actor=saved, action="account.sign_up", subject=saved, request=request)
        return saved

    def confirm_email(self, request: HttpRequest, email_address: EmailAddress) -> bool:
        """Record that an address belongs to an account."""
        confirmed = bool(super().confirm_email(request, email_address))
        if confirmed:
            user = email_address.user
            address = {"email": email_address.email}
            record_event(actor=user, action="account.email_confirmed", subject=user, after=address, request=request)
        return confirmed

    def send_password_reset_mail(self, user: User, email: str, context: dict[str, Any]) -> None:
        """Record that somebody asked for a new password; whoever it was is not known."""
        super().send_password_reset_mail(user, email, context)
        record_event(actor=None, action="account.password_reset_asked", subject=user, after={"email": email})

    def send_notification_mail(
        self, template_prefix: str, user: User, context: dict[str, Any] | None = None, email: str | None = None
    ) -> None:
        """Record what changed about an account: allauth would tell its owner of each such change.

        The last part of the template's name is that of the change, such as `password_changed` or `totp_deactivated`.
        """
        change = template_prefix.rpartition("/")[2]
        addresses = {name: value for name, value in (context or {}).items() if name.endswith("email")}
        record_event(actor=user, action=f"account.{change}"[:40], subject=user, after=addresses or None)
        super().send_notification_mail(template_prefix, user, context, email)


class SessionsAdapter(DefaultUserSessionsAdapter):
    def end_sessions(self, sessions: Iterable[UserSession]) -> None:
        """Record that somebody ended sessions of theirs."""
        ended = list(sessions)
        super().end_sessions(ended)
        if ended:
            user = ended[0].user
            record_event(actor=user, action="account.sessions_ended", subject=user, after={"sessions": len(ended)})


def record_wrong_code(*, request: HttpRequest, user: User, **_: Any) -> None:
    """Record a wrong code of a second factor. allauth tells of it by a signal alone."""
    record_event(actor=None, action="account.second_factor_failed", subject=user, request=request)


def note_second_factor(*, request: HttpRequest, user: User, authenticator: Authenticator, **_: Any) -> None:
    """Take a second factor that was just set up as shown: setting it up needs it. allauth tells of it by a signal alone."""
    if authenticator.type != Authenticator.Type.RECOVERY_CODES:
        record_authentication(request, user, "mfa", id=authenticator.pk, type=authenticator.type)
