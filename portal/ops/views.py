"""Is the web host alive and ready, and what is said when a request cannot be read."""

from __future__ import annotations

from django.core.exceptions import RequestDataTooBig, TooManyFilesSent
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe


@require_safe
@never_cache
def report_live(_request: HttpRequest) -> HttpResponse:
    """Say that the process answers."""
    return HttpResponse("live\n", content_type="text/plain")


def find_fault() -> str:
    """Return why the portal cannot serve yet, or an empty string."""
    try:
        executor = MigrationExecutor(connection)
        pending = executor.migration_plan(executor.loader.graph.leaf_nodes())
    except DatabaseError:
        return "the database does not answer"
    return f"{len(pending)} migrations are not applied" if pending else ""


@require_safe
@never_cache
def report_ready(_request: HttpRequest) -> JsonResponse:
    """Say whether the database answers and has today's tables: 200, or 503 with the reason."""
    fault = find_fault()
    return JsonResponse({"ready": not fault, "reason": fault}, status=503 if fault else 200)


def show_bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Say why a request was refused: too large, or not readable."""
    if isinstance(exception, RequestDataTooBig | TooManyFilesSent):
        return render(request, "413.html", status=413)
    return render(request, "400.html", status=400)
