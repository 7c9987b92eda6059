from __future__ import annotations

from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render

GetResponse = Callable[[HttpRequest], HttpResponse]


def refuse_body(request: HttpRequest) -> HttpResponse:
    """Say that a body is too large, to a program as the API says it."""
    if not request.path.startswith("/api/"):
        return render(request, "413.html", {"limit": settings.MAX_BODY_BYTES}, status=413)
    detail = f"A request has at most {settings.MAX_BODY_BYTES:,} bytes."
    problem = {"type": "about:blank", "title": "Content Too Large", "status": 413, "detail": detail}
    return JsonResponse(problem, status=413, content_type="application/problem+json")


class BodyLimitMiddleware:
    """Refuse a request by its announced length, before a byte of its body is read."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        length = request.META.get("CONTENT_LENGTH") or "0"
        if length.isdecimal() and int(length) > settings.MAX_BODY_BYTES:
            return refuse_body(request)
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
