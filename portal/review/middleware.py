"""Keeps the request at hand while it is answered, so that the trail can say where a change came from."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass

from django.conf import settings
from django.http import HttpRequest, HttpResponse

GetResponse = Callable[[HttpRequest], HttpResponse]


@dataclass(frozen=True)
class Origin:
    """Where a change came from: which request, and from which address."""

    request_id: str = ""
    address: str = ""


_ORIGIN: ContextVar[Origin] = ContextVar("origin", default=Origin())  # noqa: B039  it is frozen


def find_address(request: HttpRequest) -> str:
    """Return the visitor's address: as the proxy in front says it where there is one, as the connection says it else."""
    forwarded = request.META.get("HTTP_X_FORWARDED_FOR", "") if settings.SECURE_PROXY_SSL_HEADER else ""
    return (forwarded.rpartition(",")[2].strip() or request.META.get("REMOTE_ADDR", ""))[:45]


def get_origin(request: HttpRequest | None = None) -> Origin:
    """Return where `request`, or the one that is being answered, came from; empty where there is none."""
    return getattr(request, "origin", _ORIGIN.get())


class OriginMiddleware:
    """Give each request an identifier, which the answer carries too."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        origin = Origin(uuid.uuid4().hex, find_address(request))
        request.origin = origin  # type: ignore[attr-defined]
        token = _ORIGIN.set(origin)
        try:
            response = self.get_response(request)
        finally:
            _ORIGIN.reset(token)
        response["X-Request-ID"] = origin.request_id
        return response
