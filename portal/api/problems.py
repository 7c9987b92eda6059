"""Every error of the API, as RFC 9457 has it."""

from __future__ import annotations

import math
from http import HTTPStatus
from typing import Any

from django.core.exceptions import PermissionDenied, ValidationError
from django.http import HttpRequest, JsonResponse
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt
from rest_framework import status
from rest_framework.exceptions import APIException
from rest_framework.exceptions import ValidationError as InvalidRequest
from rest_framework.response import Response
from rest_framework.views import exception_handler

from portal.campaigns.services import CampaignConflict
from portal.runs.quotas import QuotaExceeded

MEDIA_TYPE = "application/problem+json"


class Conflict(APIException):
    """The request cannot be met as things stand. `members` stand beside the others in the answer."""

    status_code = status.HTTP_409_CONFLICT

    def __init__(self, detail: str, **members: str) -> None:
        super().__init__(detail)
        self.members = members


class TooManyRuns(APIException):
    """A quota is spent."""

    status_code = status.HTTP_429_TOO_MANY_REQUESTS

    def __init__(self, refusal: QuotaExceeded, wait: int | None) -> None:
        super().__init__(refusal.messages[0])
        self.wait = wait


def build_problem(code: int, detail: str, errors: dict[str, list[str]] | None = None) -> dict[str, Any]:
    """Return the body of an error."""
    problem: dict[str, Any] = {
        "type": "about:blank",
        "title": HTTPStatus(code).phrase,
        "status": code,
        "detail": detail,
    }
    return problem | {"errors": errors} if errors else problem


def count_wait(refusal: QuotaExceeded) -> int | None:
    """Return after how many seconds the next slot opens, where that is known."""
    moment = refusal.quota.next_slot
    return math.ceil((moment - timezone.now()).total_seconds()) if moment else None


def translate(error: ValidationError) -> InvalidRequest:
    """Return what a service refused, as the framework's own error."""
    return InvalidRequest(error.message_dict if hasattr(error, "error_dict") else {"request": error.messages})


def list_errors(detail: Any, name: str = "") -> dict[str, list[str]]:  # noqa: ANN401  nested lists and dicts of texts
    """Return the errors of nested fields by their dotted names."""
    if isinstance(detail, dict):
        parts = [list_errors(value, f"{name}.{key}".strip(".")) for key, value in detail.items()]
        return {key: value for part in parts for key, value in part.items()}
    return {name or "request": [str(item) for item in (detail if isinstance(detail, list) else [detail])]}


def answer_error(error: Exception, context: dict[str, Any]) -> Response | None:
    """Return the answer to a request that failed; None for a fault of ours."""
    if isinstance(error, CampaignConflict):
        error = Conflict(error.messages[0])
    elif isinstance(error, QuotaExceeded):
        error = TooManyRuns(error, count_wait(error))
    elif isinstance(error, ValidationError):
        error = translate(error)
    response = exception_handler(error, context)
    if response is None:
        return None
    if isinstance(error, InvalidRequest):
        errors = list_errors(error.detail)
        detail = " ".join(f"{name}: {text}" for name, texts in errors.items() for text in texts)
        response.data = build_problem(response.status_code, detail, errors)
    else:
        detail = str(getattr(error, "detail", "")) or (str(error) if isinstance(error, PermissionDenied) else "")
        problem = build_problem(response.status_code, detail or HTTPStatus(response.status_code).description)
        response.data = problem | getattr(error, "members", {})
    response.content_type = MEDIA_TYPE
    return response


@csrf_exempt
def answer_unknown(_request: HttpRequest, **_: Any) -> JsonResponse:
    """Answer a request for an address that there is not."""
    detail = "There is no such address. /api/v1/docs/ lists all."
    return JsonResponse(build_problem(404, detail), status=404, content_type=MEDIA_TYPE)
