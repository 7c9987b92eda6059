"""Programs that speak with the API, each with a token of somebody."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, cast

import pytest
from django.http import HttpResponse
from django.test import Client

from portal.accounts.tokens import create_token
from portal.catalog.models import Task
from portal.systems.models import System
from tests.conftest import People
from tests.portal.factories import SOURCE


class Program:
    """Sends requests with a token."""

    def __init__(self, secret: str = "") -> None:
        self.client = Client()
        self.headers = {"Authorization": f"Bearer {secret}"} if secret else {}

    def get(self, path: str, **headers: str) -> HttpResponse:
        return cast("HttpResponse", self.client.get(f"/api/v1{path}", headers=self.headers | headers))

    def post(self, path: str, body: object = None, **headers: str) -> HttpResponse:
        return self.send(self.client.post, path, body, headers)

    def patch(self, path: str, body: object = None, **headers: str) -> HttpResponse:
        return self.send(self.client.patch, path, body, headers)

    def send(self, method: Callable[..., Any], path: str, body: object, headers: dict[str, str]) -> HttpResponse:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        text = body if isinstance(body, str | bytes) else json.dumps(body if body is not None else {})
        answer = method(f"/api/v1{path}", text, content_type="application/json", headers=self.headers | named)
        return cast("HttpResponse", answer)


def read(response: HttpResponse) -> Any:  # noqa: ANN401  whatever JSON holds
    return json.loads(response.content)


Act = Callable[..., Program]


@pytest.fixture
def act(people: People) -> Act:
    """Return a program with a token of somebody, or without one."""

    def start(role: str = "alice", scope: str = "submit") -> Program:
        if role == "anonymous":
            return Program()
        _, secret = create_token(user=getattr(people, role), name="test", scope=scope, days=7)
        return Program(secret)

    return start


@pytest.fixture
def submission(task: Task, system: System) -> dict[str, Any]:
    return {"task": "l1-09", "environment": "cpu-interpreter", "system": system.slug, "source": SOURCE}
