from __future__ import annotations

import pytest
from django.db import OperationalError
from django.db.migrations.executor import MigrationExecutor
from django.test import Client


def test_it_is_live_without_a_database(client: Client) -> None:
    response = client.get("/healthz/live")
    assert (response.status_code, response.content) == (200, b"live\n")


@pytest.mark.django_db
def test_it_is_ready(client: Client) -> None:
    response = client.get("/healthz/ready")
    assert (response.status_code, response.json()) == (200, {"ready": True, "reason": ""})
    assert "no-store" in response.headers["Cache-Control"]


@pytest.mark.django_db
def test_it_is_not_ready_before_the_migrations(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MigrationExecutor, "migration_plan", lambda self, targets: ["one", "two"])
    response = client.get("/healthz/ready")
    assert (response.status_code, response.json()["reason"]) == (503, "2 migrations are not applied")


@pytest.mark.django_db
def test_it_is_not_ready_without_its_database(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: MigrationExecutor, connection: object) -> None:
        raise OperationalError("secret host unreachable")

    monkeypatch.setattr(MigrationExecutor, "__init__", fail)
    response = client.get("/healthz/ready")
    assert (response.status_code, response.json()["reason"]) == (503, "the database does not answer")
    assert b"secret" not in response.content
