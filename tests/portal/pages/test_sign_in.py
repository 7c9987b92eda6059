from __future__ import annotations

import pytest
from django.test import Client

from tests.conftest import People
from tests.portal.pages.conftest import Visit

PASSWORD = "correct horse"


@pytest.fixture(autouse=True)
def _alice_with_a_password(people: People) -> None:
    people.alice.set_password(PASSWORD)
    people.alice.save()


def test_it_signs_in_and_returns(client: Client) -> None:
    response = client.post("/sign-in/", {"username": "alice", "password": PASSWORD, "next": "/runs/"})
    assert (response.status_code, response.headers["Location"]) == (302, "/runs/")
    assert "Sign out" in client.get("/").content.decode()


def test_a_wrong_password_is_refused(client: Client) -> None:
    page = client.post("/sign-in/", {"username": "alice", "password": "wrong"}).content.decode()
    assert "Please enter a correct username and password" in page
    assert 'role="alert"' in page


@pytest.mark.parametrize("target", ["https://evil.example/", "//evil.example/", "javascript:alert(1)"])
def test_it_returns_to_no_other_site(client: Client, target: str) -> None:
    response = client.post("/sign-in/", {"username": "alice", "password": PASSWORD, "next": target})
    assert response.headers["Location"] == "/"


def test_it_signs_out(visit: Visit) -> None:
    client = visit("alice")
    client.post("/sign-out/")
    assert client.get("/submit/").status_code == 302


def test_a_link_signs_nobody_out(visit: Visit) -> None:
    client = visit("alice")
    assert client.get("/sign-out/").status_code == 405
    assert client.get("/submit/").status_code == 200
