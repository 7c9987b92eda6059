from __future__ import annotations

from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

GetResponse = Callable[[HttpRequest], HttpResponse]


class BodyLimitMiddleware:
    """Refuse a request by its announced length, before a byte of its body is read."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        length = request.META.get("CONTENT_LENGTH") or "0"
        if length.isdecimal() and int(length) > settings.MAX_BODY_BYTES:
            return render(request, "413.html", {"limit": settings.MAX_BODY_BYTES}, status=413)
        return self.get_response(request)


class PermissionsPolicyMiddleware:
    """Deny the browser features that no page uses."""

    POLICY = "camera=(), geolocation=(), microphone=(), payment=(), usb=()"

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        response["Permissions-Policy"] = self.POLICY
        return response
