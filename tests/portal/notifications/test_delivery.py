from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import socket
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.core import mail
from django.utils import timezone
from pytest_django import Settings

from portal.notifications import delivery
from portal.notifications.addresses import Target, check_address, is_public, resolve
from portal.notifications.delivery import (
    WAITS,
    NotTaken,
    build_request,
    call_webhook,
    claim_delivery,
    deliver_next,
)
from portal.notifications.kinds import Kind
from portal.notifications.models import Delivery, Webhook
from portal.notifications.services import notify
from tests.conftest import People
from tests.portal.accounts.test_entrance import BrokenBackend


def test_mail_is_sent_once(people: People) -> None:
    people.alice.email = "alice@team.example"
    people.alice.save()
    notify(kind=Kind.APPEAL, team=people.team, text="Your appeal is open.", actor=people.bob)
    while deliver_next():
        pass
    assert [message.subject for message in mail.outbox] == ["KernelQuest: Your appeal is open."]
    assert "/notifications/settings/" in mail.outbox[0].body
    assert Delivery.objects.get().state == "sent"


def test_mail_waits_for_a_server_that_is_down_and_is_given_up_at_last(people: People, settings: Settings) -> None:
    people.alice.email = "alice@team.example"
    people.alice.save()
    settings.EMAIL_BACKEND = f"{BrokenBackend.__module__}.BrokenBackend"
    notify(kind=Kind.APPEAL, team=people.team, text="x", actor=people.bob)
    for wait in WAITS:
        assert deliver_next()
        row = Delivery.objects.get()
        assert row.state == "due"
        assert abs(row.due_at - timezone.now() - wait) < timedelta(seconds=30)
        assert not deliver_next()
        Delivery.objects.update(due_at=timezone.now() - timedelta(seconds=1))
    assert deliver_next()
    assert Delivery.objects.get().state == "failed"
    assert not deliver_next()


def test_a_reason_of_many_lines_is_one_subject(people: People) -> None:
    people.alice.email = "alice@team.example"
    people.alice.save()
    notify(kind=Kind.APPEAL, team=people.team, text="Appeal: first\r\nBcc: all@team.example\n\nlast", actor=people.bob)
    while deliver_next():
        pass
    assert [message.subject for message in mail.outbox] == ["KernelQuest: Appeal: first Bcc: all@team.example last"]
    assert mail.outbox[0].recipients() == ["alice@team.example"]


def test_a_message_that_no_header_can_hold_ends_and_stops_nobody(people: People) -> None:
    people.alice.email = "alice@team.example\nBcc: all@team.example"
    people.alice.save()
    notify(kind=Kind.APPEAL, team=people.team, text="x", actor=people.bob)
    assert deliver_next()
    row = Delivery.objects.get()
    assert (row.state, row.attempts) == ("due", 1)
    assert "BadHeaderError" in row.last_error
    assert not mail.outbox


def test_two_processes_send_a_message_once(people: People) -> None:
    notify(kind=Kind.APPEAL, team=people.team, text="x", actor=people.bob)
    assert claim_delivery() is not None
    assert claim_delivery() is None


def test_a_request_is_signed(people: People) -> None:
    hook = Webhook.objects.create(team=people.team, url="https://hooks.example/in?x=1", secret="secret")
    row = Delivery.objects.create(webhook=hook, payload={"kind": "verdict"})
    body, headers = build_request(row, hook)
    moment, signature = (part.partition("=")[2] for part in headers["KernelQuest-Signature"].split(","))
    expected = hmac.new(b"secret", f"{moment}.".encode() + body, hashlib.sha256).hexdigest()
    assert signature == expected
    assert json.loads(body) == {"kind": "verdict", "delivery": str(row.public_id)}


def test_a_webhook_that_does_not_answer_is_tried_again(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise NotTaken("It answered 500.")

    monkeypatch.setattr(delivery, "call_webhook", refuse)
    hook = Webhook.objects.create(team=people.team, url="https://hooks.example/", secret="s")
    Delivery.objects.create(webhook=hook)
    deliver_next()
    row = Delivery.objects.get()
    assert (row.state, row.attempts, row.last_error) == ("due", 1, "It answered 500.")


def test_a_webhook_that_does_not_answer_is_asked_once_and_holds_nobody_up(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[str] = []

    def hang(row: Delivery, hook: Webhook) -> None:
        called.append(f"{hook.url} {row.payload['kind']}")
        if "dead" in hook.url:
            raise NotTaken("timed out")

    monkeypatch.setattr(delivery, "call_webhook", hang)
    dead = Webhook.objects.create(team=people.team, url="https://dead.example/", secret="s")
    live = Webhook.objects.create(team=people.other_team, url="https://live.example/", secret="s")
    for number, hook in enumerate((dead, dead, dead, live)):
        Delivery.objects.create(webhook=hook, payload={"kind": str(number)})
    while deliver_next():
        pass
    assert called == ["https://dead.example/ 0", "https://live.example/ 3"]
    waiting = Delivery.objects.filter(webhook=dead)
    assert [row.attempts for row in waiting.order_by("pk")] == [1, 0, 0]
    assert {row.state for row in waiting} == {"due"}


@pytest.fixture
def dripping(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A host that begins to answer and then sends a byte now and then, for a minute."""
    listener = socket.create_server(("127.0.0.1", 0))
    ended = threading.Event()

    def drip() -> None:
        connection, _ = listener.accept()
        with connection, contextlib.suppress(OSError):
            # The head of a TLS record that is long in coming.
            connection.sendall(b"\x16\x03\x03\x40\x00")
            for _ in range(600):
                connection.sendall(b"\0")
                if ended.wait(0.1):
                    return

    thread = threading.Thread(target=drip, daemon=True)
    thread.start()
    monkeypatch.setattr(delivery, "HTTPS_PORT", listener.getsockname()[1])
    monkeypatch.setattr(delivery, "DEADLINE_SECONDS", 0.5)
    monkeypatch.setattr(delivery, "resolve", lambda _: Target("localhost", "127.0.0.1", "/"))
    yield
    ended.set()
    thread.join()
    listener.close()


@pytest.mark.usefixtures("dripping")
def test_a_webhook_that_answers_by_drops_is_hung_up_on(people: People) -> None:
    hook = Webhook.objects.create(team=people.team, url="https://localhost/", secret="s")
    row = Delivery.objects.create(webhook=hook)
    began = time.monotonic()
    with pytest.raises(NotTaken):
        call_webhook(row, hook)
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    "url",
    [
        *("http://example.org/", "https://example.org:8443/", "https://u:p@example.org/", "ftp://example.org/", "x"),
        *("https://127.0.0.1/", "https://[::1]/", "https://10.0.0.1/", "https://169.254.169.254/", "https://0.0.0.0/"),
        *("https://[::ffff:10.0.0.1]/", "https://exa mple.org/", "https://example.org/\r\nHost: x", "https:///x"),
        *("https://[64:ff9b::a9fe:a9fe]/", "https://[2002:7f00:1::]/", "https://[::127.0.0.1]/", "https://[fec0::1]/"),
        *("https://[::ffff:0:10.0.0.1]/", "https://[::ffff:224.0.0.1]/", "https://192.0.0.8/", "https://[2001::1]/"),
        *("https://[fe80::1]/", "https://100.64.0.1/", "https://224.0.0.1/", "https://ex\u00e4mple.org/"),
    ],
)
def test_addresses_that_no_team_may_name(url: str) -> None:
    with pytest.raises(ValueError, match=r"address|ASCII"):
        check_address(url)


@pytest.mark.parametrize("answers", [["10.0.0.1"], ["203.0.113.9"], ["93.184.216.34", "127.0.0.1"], ["::1"], []])
def test_a_name_that_leads_inside_is_not_called(answers: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def look_up(*_: Any, **__: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 443)) for address in answers]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    with pytest.raises(ValueError, match="private"):
        resolve("https://hooks.example/")


def test_a_public_name_is_called_at_the_address_that_was_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("93.184.216.34", 443))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    target = resolve("https://hooks.example/in?x=1")
    assert (target.host, target.address, target.path) == ("hooks.example", "93.184.216.34", "/in?x=1")
    assert is_public("2606:2800:220:1:248:1893:25c8:1946")
