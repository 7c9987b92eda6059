from __future__ import annotations

from rest_framework.pagination import CursorPagination


class NewestFirst(CursorPagination):
    """Pages that stay whole while rows are added."""

    page_size = 50
    max_page_size = 200
    page_size_query_param = "page_size"
    ordering: tuple[str, ...] = ("-queued_at", "-id")


class ByIdentifier(NewestFirst):
    ordering = ("pk",)
