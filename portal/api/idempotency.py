"""The same request twice does its work once."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from datetime import timedelta

from django.db import IntegrityError, transaction
from django.utils import timezone
from rest_framework.exceptions import ValidationError
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from portal.accounts.models import User
from portal.api.models import StoredAnswer
from portal.api.problems import Conflict

KEPT = timedelta(hours=48)
_KEY = re.compile(r"[\x21-\x7e]{1,200}")


def take_fingerprint(request: Request, body: bytes) -> str:
    """Return what two equal requests have in common."""
    return hashlib.sha256(b"\n".join([str(request.method).encode(), request.path.encode(), body])).hexdigest()


def answer_once(request: Request, user: User, body: bytes, act: Callable[[], Response]) -> Response:
    """Return what `act` answers, or what it answered to the same key before; an error is not kept."""
    key = request.headers.get("Idempotency-Key")
    if key is None:
        return act()
    if not _KEY.fullmatch(key):
        raise ValidationError({"Idempotency-Key": ["Use 1 to 200 printable ASCII characters without spaces."]})
    StoredAnswer.objects.filter(created_at__lt=timezone.now() - KEPT).delete()
    fingerprint = take_fingerprint(request, body)
    with transaction.atomic():
        try:
            # A second request with the key waits here until the first has ended.
            with transaction.atomic():
                row = StoredAnswer.objects.create(user=user, key=key, fingerprint=fingerprint)
        except IntegrityError:
            return repeat_answer(StoredAnswer.objects.get(user=user, key=key), fingerprint)
        response = act()
        row.status, row.body = response.status_code, json.loads(JSONRenderer().render(response.data))
        row.save(update_fields=["status", "body"])
    return response


def repeat_answer(row: StoredAnswer, fingerprint: str) -> Response:
    """Return the stored answer. Raises Conflict when the key belongs to another request."""
    if row.fingerprint != fingerprint:
        raise Conflict("This Idempotency-Key was used for another request. Take a new key.")
    return Response(row.body, status=row.status, headers={"Idempotency-Replayed": "true"})
