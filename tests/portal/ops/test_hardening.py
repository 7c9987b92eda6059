"""The portal as it stands on the open internet: its checks, headers, cookies, caps and throttles."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from allauth.account.models import EmailAddress
from django.conf import settings
from django.test import Client

from portal.accounts.tokens import create_token
from tests.conftest import People
from tests.portal.processes import wait_for

PASSWORD = "a long enough password"
ANSWER = """
import json, django
django.setup()
from django.test import Client, override_settings
plain = {"staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}}
with override_settings(STORAGES=plain, ALLOWED_HOSTS=["testserver"]):
    client = Client()
    page = client.get("/sign-in/", secure=True)
    cookies = {name: dict(morsel) for name, morsel in client.cookies.items()}
    moved, alive = client.get("/sign-in/"), client.get("/healthz/live")
    through = client.get("/sign-in/", headers={"X-Forwarded-Proto": "https"}).status_code
    print(json.dumps([dict(page.headers), cookies, moved.status_code, moved["Location"], alive.status_code, through]))
"""


def build_variables(folder: Path, **given: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "PORTAL_VAR": str(folder), "DJANGO_SETTINGS_MODULE": "portal.settings"} | given


def run(folder: Path, *command: str, **given: str) -> subprocess.CompletedProcess[str]:
    variables = build_variables(folder, **given)
    return subprocess.run(command, cwd=settings.BASE_DIR, env=variables, check=False, capture_output=True, text=True)


def test_djangos_own_check_of_a_deployment_finds_nothing(tmp_path: Path) -> None:
    command = (sys.executable, "manage.py", "check", "--deploy", "--fail-level", "WARNING")
    answer = run(tmp_path, *command, PORTAL_HTTPS="1", PORTAL_ALLOWED_HOSTS="portal.example")
    assert answer.returncode == 0, answer.stderr
    assert run(tmp_path, *command).returncode == 1


def test_https_is_kept_and_cookies_stay_on_it(tmp_path: Path) -> None:
    answer = run(tmp_path, sys.executable, "-c", ANSWER, PORTAL_HTTPS="1")
    headers, cookies, moved, location, alive, through = json.loads(answer.stdout or answer.stderr)
    assert headers["Strict-Transport-Security"] == "max-age=31536000; includeSubDomains"
    assert headers["Referrer-Policy"] == "same-origin"
    assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert list(cookies) == ["__Host-csrf"]
    cookie = cookies["__Host-csrf"]
    assert (cookie["secure"], cookie["httponly"], cookie["path"], cookie["domain"]) == (True, True, "/", "")
    assert (moved, location) == (301, "https://testserver/sign-in/")
    assert (alive, through) == (200, 200)


def test_a_session_is_for_this_site_alone(client: Client, people: People) -> None:
    sign_in(client, people)
    cookie = client.cookies[settings.SESSION_COOKIE_NAME]
    assert (cookie["httponly"], cookie["samesite"], cookie["path"]) == (True, "Lax", "/")


def sign_in(client: Client, people: People, password: str = PASSWORD, **given: Any) -> str:
    if not people.alice.has_usable_password():
        people.alice.set_password(PASSWORD)
        people.alice.save()
        EmailAddress.objects.create(user=people.alice, email="alice@team.example", verified=True, primary=True)
    answer = client.post("/sign-in/", {"login": "alice", "password": password}, **given)
    return "in" if answer.status_code == 302 else answer.content.decode()


class TestThrottles:
    def test_a_password_cannot_be_guessed(self, client: Client, people: People) -> None:
        """Of one account from anywhere: the right one comes too late."""
        for number in range(5):
            assert "not correct" in sign_in(client, people, "wrong", REMOTE_ADDR=f"192.0.2.{number}")
        assert "Too many" in sign_in(client, people, REMOTE_ADDR="192.0.2.99")

    def test_an_address_cannot_try_account_after_account(self, client: Client, people: People) -> None:
        for number in range(10):
            client.post("/sign-in/", {"login": f"nobody-{number}", "password": "wrong"})
        assert "Too many" in sign_in(client, people)
        assert sign_in(Client(), people, REMOTE_ADDR="192.0.2.1") == "in"

    def test_who_forwards_a_request_does_not_choose_by_what_it_counts(self, client: Client, people: People) -> None:
        for number in range(10):
            client.post(
                "/sign-in/", {"login": f"n{number}", "password": "x"}, headers={"X-Forwarded-For": f"192.0.2.{number}"}
            )
        assert "Too many" in sign_in(client, people)

    def test_resets_of_a_password_do_not_fill_a_mailbox(self, client: Client, people: People) -> None:
        sign_in(Client(), people)
        answers = [
            client.post("/account/password/reset/", {"email": "alice@team.example"}).status_code for _ in range(7)
        ]
        assert answers[0] == 302
        assert answers[-1] == 429

    def test_tokens_that_open_nothing_are_counted_and_good_ones_work_on(self, client: Client, people: People) -> None:
        _, secret = create_token(user=people.alice, name="t", scope="read", days=7)

        def ask(token: str) -> Any:  # noqa: ANN401  the client's own answer
            return client.get("/api/v1/me/", headers={"Authorization": f"Bearer {token}"})

        assert {ask(f"kq_{number}").status_code for number in range(30)} == {401}
        refused = ask("kq_31")
        assert refused.status_code == 429
        assert int(refused["Retry-After"]) > 0
        assert "your address" in refused.json()["detail"]
        assert ask(secret).status_code == 200


@pytest.fixture
def server(tmp_path: Path) -> Iterator[int]:
    """A web server as in the demo, on a port of its own."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    assert run(tmp_path, sys.executable, "manage.py", "migrate", "--verbosity", "0").returncode == 0
    variables = build_variables(tmp_path, PORTAL_DEBUG="1")
    command = [sys.executable, "-m", "gunicorn", "portal.wsgi:application", "--bind", f"127.0.0.1:{port}"]
    with (tmp_path / "server.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=settings.BASE_DIR, env=variables, stdout=log, stderr=log)
    try:
        wait_for(lambda: answers(port), what="the server")
        yield port
    finally:
        process.terminate()
        process.wait(20)


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def talk(port: int, *parts: bytes, pause_seconds: float = 0) -> bytes:
    """Send what is given over one connection, and return the beginning of the answer."""
    with socket.create_connection(("127.0.0.1", port), 20) as connection:
        for part in parts:
            connection.sendall(part)
            time.sleep(pause_seconds)
        return connection.recv(65_536)


def test_a_body_is_refused_before_it_is_sent(server: int) -> None:
    """Ten gigabytes are announced, and none of them is waited for."""
    head = b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10000000000\r\n\r\n"
    assert talk(server, head % b"/submit/").startswith(b"HTTP/1.1 413")
    answer = talk(server, head % b"/api/v1/runs/")
    assert answer.startswith(b"HTTP/1.1 413")
    assert b"application/problem+json" in answer


def test_a_body_of_unknown_length_is_not_read(server: int) -> None:
    head = b"POST /api/v1/runs/ HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    answer = talk(server, head + b"Transfer-Encoding: chunked\r\n\r\n", b"2\r\n{}\r\n0\r\n\r\n")
    assert answer.split()[1] in (b"401", b"400", b"411", b"413")


def test_a_head_that_does_not_end_is_refused(server: int) -> None:
    assert talk(server, b"GET /" + b"a" * 10_000 + b" HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 4")
    assert (
        talk(server, b"GET / HTTP/1.1\r\nHost: localhost\r\nA: " + b"a" * 70_000 + b"\r\n\r\n").split()[1][:1] == b"4"
    )
