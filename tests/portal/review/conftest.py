"""Visitors in their roles, and runs that were judged, as the tests of pages have them."""

from __future__ import annotations

from tests.portal.pages.conftest import finish, visit  # noqa: F401  fixtures
