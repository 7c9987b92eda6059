"""Requests made up from the schema: no fault of ours, and no answer that the schema does not describe."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from django.core.signals import request_finished, request_started
from django.db import close_old_connections
from drf_spectacular.generators import SchemaGenerator
from hypothesis import HealthCheck, settings
from pytest_django import Settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from portal.accounts.tokens import create_token
from portal.campaigns.models import Campaign
from portal.runs.models import Run
from portal.wsgi import application
from tests.conftest import People
from tests.portal.campaigns.conftest import draft  # noqa: F401  a fixture

CHECKS = [
    *(not_a_server_error, status_code_conformance, content_type_conformance),
    *(response_schema_conformance, response_headers_conformance),
]


schema = schemathesis.openapi.from_dict(SchemaGenerator().get_schema(public=True))  # type: ignore[no-untyped-call]
schema.app = application


@pytest.fixture
def secret(people: People) -> str:
    return create_token(user=people.alice, name="test", scope="submit", days=7)[1]


@pytest.fixture(autouse=True)
def _one_connection() -> Iterator[None]:
    """Keep the test's connection open between requests, as Django's own test client does."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


@pytest.fixture(autouse=True)
def _no_limit(settings: Settings) -> None:
    settings.CACHES = {"default": {"BACKEND": "django.core.cache.backends.dummy.DummyCache"}}


@schema.parametrize()
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_request_finds_a_fault(
    case: schemathesis.Case[Any],
    secret: str,
    run: Run,
    draft: Campaign,  # noqa: F811
) -> None:
    if case.path_parameters and "public_id" in case.path_parameters:
        subject = draft if "/campaigns/" in case.path else run
        case.path_parameters["public_id"] = str(subject.public_id)
        # An earlier request may have ended it.
        Campaign.objects.update(state="draft", submitted_at=None)
    case.call_and_validate(checks=CHECKS, headers={"Authorization": f"Bearer {secret}"})
