from __future__ import annotations

import pytest
from allauth.account.models import EmailAddress
from django.test import Client

from portal.review.models import TrailEvent
from tests.conftest import People
from tests.portal.pages.conftest import Visit

PASSWORD = "correct horse"


@pytest.fixture(autouse=True)
def _alice_with_a_password(people: People) -> None:
    people.alice.set_password(PASSWORD)
    people.alice.save()
    EmailAddress.objects.create(user=people.alice, email="alice@team.example", verified=True, primary=True)


def test_it_signs_in_and_returns(client: Client) -> None:
    response = client.post("/sign-in/", {"login": "alice", "password": PASSWORD, "next": "/runs/"})
    assert (response.status_code, response.headers["Location"]) == (302, "/runs/")
    assert "Sign out" in client.get("/").content.decode()
    assert TrailEvent.objects.filter(action="account.sign_in", actor_name="alice").exists()


def test_an_address_signs_in_too(client: Client) -> None:
    assert client.post("/sign-in/", {"login": "alice@team.example", "password": PASSWORD}).status_code == 302


def test_a_wrong_password_is_refused(client: Client) -> None:
    page = client.post("/sign-in/", {"login": "alice", "password": "wrong"}).content.decode()
    assert "are not correct" in page
    assert 'role="alert"' in page
    assert TrailEvent.objects.filter(action="account.sign_in_failed").exists()


def test_guessing_is_throttled(client: Client) -> None:
    for _ in range(5):
        client.post("/sign-in/", {"login": "alice", "password": "wrong"})
    page = client.post("/sign-in/", {"login": "alice", "password": PASSWORD}).content.decode()
    assert "Too many failed login attempts" in page
    assert client.get("/submit/").status_code == 302


@pytest.mark.parametrize("target", ["https://evil.example/", "//evil.example/", "javascript:alert(1)"])
def test_it_returns_to_no_other_site(client: Client, target: str) -> None:
    response = client.post("/sign-in/", {"login": "alice", "password": PASSWORD, "next": target})
    assert response.headers["Location"] == "/"


def test_it_signs_out(visit: Visit) -> None:
    client = visit("alice")
    client.post("/sign-out/")
    assert client.get("/submit/").status_code == 302


def test_a_link_signs_nobody_out(visit: Visit) -> None:
    client = visit("alice")
    client.get("/sign-out/")
    assert client.get("/submit/").status_code == 200
