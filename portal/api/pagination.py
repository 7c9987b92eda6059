from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.core.exceptions import ValidationError
from django.db import DataError
from django.db.models import QuerySet
from rest_framework.exceptions import NotFound
from rest_framework.pagination import CursorPagination
from rest_framework.request import Request
from rest_framework.views import APIView


class NewestFirst(CursorPagination):
    """Pages that stay whole while rows are added."""

    page_size = 50
    max_page_size = 200
    page_size_query_param = "page_size"
    ordering: tuple[str, ...] = ("-queued_at", "-id")

    def paginate_queryset(
        self, queryset: QuerySet[Any] | Sequence[Any], request: Request, view: APIView | None = None
    ) -> list[Any] | None:
        """Return the rows of the page that was asked for. Raises NotFound for a cursor that is not one of ours."""
        try:
            return super().paginate_queryset(queryset, request, view)
        except (ValueError, OverflowError, ValidationError, DataError) as error:
            # The framework reads a cursor, but does not look whether the position in it fits the column.
            if not request.query_params.get(self.cursor_query_param):
                raise
            raise NotFound(self.invalid_cursor_message) from error


class ByIdentifier(NewestFirst):
    ordering = ("pk",)
