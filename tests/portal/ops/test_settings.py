"""Settings, read by a fresh interpreter as a deployment reads them."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.http import HttpResponse
from django.test import Client, RequestFactory
from pytest_django import Settings

from portal.ops.middleware import BodyLimitMiddleware

READ = (
    "import json; from portal import settings as s;"
    "print(json.dumps({n: getattr(s, n) for n in dir(s) if n.isupper()}, default=str))"
)


def read_settings(folder: Path, **environment: str) -> dict[str, Any]:
    """Return the settings in an environment that holds nothing but what is given."""
    known = {"PATH": os.environ["PATH"], "PORTAL_VAR": str(folder), **environment}
    output = subprocess.run([sys.executable, "-c", READ], env=known, check=True, capture_output=True).stdout
    settings: dict[str, Any] = json.loads(output)
    return settings


def test_they_work_without_configuration(tmp_path: Path) -> None:
    settings = read_settings(tmp_path)
    assert settings["DEBUG"] is False
    assert settings["DATABASES"]["default"]["NAME"] == str(tmp_path / "portal.sqlite3")
    assert settings["DATABASES"]["default"]["OPTIONS"]["transaction_mode"] == "IMMEDIATE"
    assert settings["Q_CLUSTER"]["retry"] > settings["Q_CLUSTER"]["timeout"]
    longest = settings["TIMED_VERIFICATION_TIMEOUT_SECONDS"] + settings["GPU_WAIT_SECONDS"]
    assert settings["Q_CLUSTER"]["timeout"] > longest > 25 * 60 > settings["VERIFICATION_TIMEOUT_SECONDS"]


def test_the_secret_key_is_made_once_and_is_private(tmp_path: Path) -> None:
    first, second = read_settings(tmp_path), read_settings(tmp_path)
    assert first["SECRET_KEY"] == second["SECRET_KEY"]
    assert len(first["SECRET_KEY"]) > 50
    assert stat.S_IMODE((tmp_path / "secret-key").stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["secret-key"]


def test_two_installations_have_two_keys(tmp_path: Path) -> None:
    assert read_settings(tmp_path / "a")["SECRET_KEY"] != read_settings(tmp_path / "b")["SECRET_KEY"]


def test_a_given_key_is_taken_and_nothing_written(tmp_path: Path) -> None:
    assert read_settings(tmp_path, PORTAL_SECRET_KEY="given")["SECRET_KEY"] == "given"
    assert list(tmp_path.iterdir()) == []


def test_a_database_url_switches_to_postgresql(tmp_path: Path) -> None:
    database = read_settings(tmp_path, DATABASE_URL="postgres://kq:word@db:5433/portal")["DATABASES"]["default"]
    assert database["ENGINE"] == "django.db.backends.postgresql"
    assert (database["HOST"], database["PORT"], database["NAME"]) == ("db", 5433, "portal")
    assert database["CONN_MAX_AGE"] == 60
    assert "transaction_mode" not in database.get("OPTIONS", {})


def test_https_secures_the_cookies(tmp_path: Path) -> None:
    settings = read_settings(tmp_path, PORTAL_HTTPS="1")
    assert settings["SESSION_COOKIE_SECURE"] is settings["CSRF_COOKIE_SECURE"] is True
    assert settings["SECURE_HSTS_SECONDS"] > 0


@pytest.mark.django_db
def test_sqlite_waits_instead_of_failing() -> None:
    if connection.vendor != "sqlite":
        pytest.skip("only SQLite has a journal mode")
    with connection.cursor() as cursor:
        mode = cursor.execute("PRAGMA journal_mode").fetchone()[0]
        patience = cursor.execute("PRAGMA busy_timeout").fetchone()[0]
    assert (mode, patience) == ("wal", 20_000)


def test_a_body_that_is_too_large_is_refused_unread(settings: Settings) -> None:
    request = RequestFactory().post("/", data=b"", content_type="text/plain")
    request.META["CONTENT_LENGTH"] = str(settings.MAX_BODY_BYTES + 1)

    def fail(_: object) -> HttpResponse:
        raise AssertionError("the request went on")

    assert BodyLimitMiddleware(fail)(request).status_code == 413


@pytest.mark.django_db
def test_every_answer_carries_the_security_headers(client: Client) -> None:
    headers = client.get("/healthz/live").headers
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Permissions-Policy"].startswith("camera=()")


def test_logs_can_be_json(tmp_path: Path) -> None:
    code = "import django; django.setup(); import logging; logging.getLogger('portal').warning('a <b>', extra={'n': 1})"
    environment = {
        "PATH": os.environ["PATH"],
        "PORTAL_VAR": str(tmp_path),
        "PORTAL_LOG_FORMAT": "json",
        "DJANGO_SETTINGS_MODULE": "portal.settings",
    }
    output = subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True).stderr
    line = json.loads(output)
    assert (line["event"], line["level"], line["logger"], line["n"]) == ("a <b>", "warning", "portal", 1)
