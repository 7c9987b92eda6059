"""Sends what is due: mail and signed requests. What is not taken is sent again, later each time."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import logging
import socket
import ssl
import threading
from datetime import timedelta
from http.client import HTTPException, HTTPSConnection
from smtplib import SMTPException

from django.conf import settings
from django.core.mail import send_mail
from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now
from django.urls import reverse
from django.utils import timezone

from portal.notifications.addresses import HTTPS_PORT, Target, resolve
from portal.notifications.models import Delivery, Notification, Webhook

logger = logging.getLogger(__name__)

# After each failed attempt; then it is given up.
WAITS = [timedelta(minutes=1), timedelta(minutes=5), timedelta(minutes=30), timedelta(hours=3), timedelta(hours=12)]
# A process that dies while it sends leaves the message to the next one after this long.
CLAIM = timedelta(minutes=5)
TIMEOUT_SECONDS = 10
# A webhook that sends a byte now and then would hold up everybody else's messages.
DEADLINE_SECONDS = 20
_SUCCESS = range(200, 300)


class NotTaken(Exception):
    """The other side did not take a message."""


class PinnedConnection(HTTPSConnection):
    """Connects to the address that was looked at, and checks the certificate for the name."""

    def __init__(self, target: Target) -> None:
        self._context = ssl.create_default_context()
        super().__init__(target.host, HTTPS_PORT, timeout=TIMEOUT_SECONDS)
        self._target = target
        self._end: threading.Timer | None = None

    def connect(self) -> None:
        """Open the connection."""
        raw = socket.create_connection((self._target.address, HTTPS_PORT), TIMEOUT_SECONDS)
        self.sock = self._context.wrap_socket(raw, server_hostname=self._target.host, do_handshake_on_connect=False)
        self._end = threading.Timer(DEADLINE_SECONDS, self._hang_up, [self.sock])
        self._end.daemon = True
        self._end.start()
        self.sock.do_handshake()

    def close(self) -> None:
        """Close the connection."""
        if self._end:
            self._end.cancel()
        super().close()

    @staticmethod
    def _hang_up(sock: socket.socket) -> None:
        # Whoever reads sees the end, at whatever point of the exchange.
        with contextlib.suppress(OSError):
            socket.socket.shutdown(sock, socket.SHUT_RDWR)


def sign(secret: str, moment: int, body: bytes) -> str:
    """Return the signature of a request: HMAC-SHA-256 over the time and the body."""
    return hmac.new(secret.encode(), f"{moment}.".encode() + body, hashlib.sha256).hexdigest()


def build_request(delivery: Delivery, webhook: Webhook) -> tuple[bytes, dict[str, str]]:
    """Return the body and the headers of a signed request."""
    body = json.dumps(delivery.payload | {"delivery": str(delivery.public_id)}, sort_keys=True).encode()
    moment = int(timezone.now().timestamp())
    return body, {
        "Content-Type": "application/json",
        "User-Agent": "KernelQuest-webhook",
        "KernelQuest-Delivery": str(delivery.public_id),
        "KernelQuest-Signature": f"t={moment},v1={sign(webhook.secret, moment, body)}",
    }


def call_webhook(delivery: Delivery, webhook: Webhook) -> None:
    """Send one signed request. Raises NotTaken; redirects are not followed."""
    body, headers = build_request(delivery, webhook)
    try:
        target = resolve(webhook.url)
        connection = PinnedConnection(target)
        try:
            connection.request("POST", target.path, body, headers)
            status = connection.getresponse().status
        finally:
            connection.close()
    except (OSError, HTTPException, ValueError) as error:
        raise NotTaken(repr(error)) from error
    if status not in _SUCCESS:
        raise NotTaken(f"It answered {status}.")


def mail_notification(notification: Notification) -> None:
    """Send one notification by mail. Raises NotTaken."""
    user = notification.user
    if not user.email:
        return
    base = settings.PUBLIC_ADDRESS
    link = reverse("runs:run_detail", args=[notification.run.public_id]) if notification.run else "/notifications/"
    switches = base + reverse("notifications:preferences")
    text = f"{notification.text}\n\n{base}{link}\n\nWhich messages you get, you choose at {switches}\n"
    # A reason that somebody wrote has lines; a line break in a subject would begin another header.
    subject = f"KernelQuest: {' '.join(notification.text.split())}"[:150]
    try:
        send_mail(subject, text, None, [user.email])
    except (OSError, SMTPException, ValueError) as error:
        raise NotTaken(repr(error)) from error


@transaction.atomic
def claim_delivery() -> Delivery | None:
    """Take the next message that is due, so that no other process sends it too."""
    due = Delivery.objects.due().select_for_update(skip_locked=True).first()
    if due is None:
        return None
    row = Delivery.objects.filter(pk=due.pk, state=Delivery.State.DUE, attempts=due.attempts)
    if not row.update(attempts=F("attempts") + 1, due_at=Now() + CLAIM):
        return None
    due.refresh_from_db()
    return due


def settle_delivery(delivery: Delivery, error: str = "") -> None:
    """Note how an attempt ended."""
    if not error:
        changes = {"state": Delivery.State.SENT, "ended_at": Now(), "last_error": ""}
    elif delivery.attempts > len(WAITS):
        changes = {"state": Delivery.State.FAILED, "ended_at": Now(), "last_error": error[:200]}
    else:
        changes = {"due_at": Now() + WAITS[delivery.attempts - 1], "last_error": error[:200]}
    Delivery.objects.filter(pk=delivery.pk, attempts=delivery.attempts).update(**changes)


def postpone_webhook(webhook: Webhook) -> None:
    """Let what else is due for `webhook` wait, so that one which does not answer holds up nobody else's messages."""
    Delivery.objects.due().filter(webhook=webhook).order_by().update(due_at=Now() + WAITS[0])


def deliver_next() -> bool:
    """Send one message that is due; return whether there was one."""
    delivery = claim_delivery()
    if delivery is None:
        return False
    try:
        if delivery.notification:
            mail_notification(delivery.notification)
        elif delivery.webhook:
            call_webhook(delivery, delivery.webhook)
    except NotTaken as fault:
        logger.warning("Delivery %s was not taken: %s", delivery, fault)
        settle_delivery(delivery, str(fault))
        if delivery.webhook:
            postpone_webhook(delivery.webhook)
    else:
        settle_delivery(delivery)
    return True
