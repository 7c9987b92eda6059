from __future__ import annotations

import pytest
from django.core.exceptions import RequestDataTooBig, SuspiciousOperation
from django.http import HttpRequest
from django.test import Client, RequestFactory
from django.views.defaults import permission_denied, server_error

from portal.ops.views import show_bad_request

pytestmark = pytest.mark.django_db


def test_not_found(client: Client) -> None:
    response = client.get("/no/such/<script>alert(1)</script>/")
    assert response.status_code == 404
    assert "There is no such page" in response.content.decode()
    assert "<script>alert" not in response.content.decode()


def test_bad_request(rf: RequestFactory) -> None:
    response = show_bad_request(rf.get("/"), SuspiciousOperation())
    assert response.status_code == 400
    assert "could not be read" in response.content.decode()


def test_too_large(rf: RequestFactory) -> None:
    response = show_bad_request(rf.post("/"), RequestDataTooBig())
    assert response.status_code == 413
    assert "at most 256 KiB" in response.content.decode()


def test_a_body_whose_parts_are_too_many_is_a_bad_request(client: Client) -> None:
    response = client.post("/sign-in/", {f"field{number}": "x" for number in range(2_000)})
    assert response.status_code == 400
    assert "could not be read" in response.content.decode()


def test_not_allowed(rf: RequestFactory) -> None:
    response = permission_denied(rf.get("/"), PermissionError("why"))
    assert response.status_code == 403
    assert "You may not do this" in response.content.decode()


def test_a_fault_says_nothing_of_its_cause(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_request: HttpRequest) -> None:
        raise ValueError("secret cause")

    monkeypatch.setattr("portal.standings.views.board.load_snapshot", fail)
    client.raise_request_exception = False
    response = client.get("/")
    assert response.status_code == 500
    assert "Something failed on our side" in response.content.decode()
    assert "secret cause" not in response.content.decode()


def test_the_page_of_a_fault_needs_no_visitor(rf: RequestFactory) -> None:
    assert server_error(rf.get("/")).status_code == 500
