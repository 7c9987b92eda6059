"""Accounts from sign-up to a second factor."""

from __future__ import annotations

import re
import time
from typing import Any, cast

import pytest
from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import format_hotp_value, hotp_value
from allauth.usersessions.models import UserSession
from django.core import mail
from django.core.mail.backends.locmem import EmailBackend
from django.http import HttpResponse
from django.test import Client
from pytest_django import Settings

from portal.accounts.models import User
from tests.conftest import People

PASSWORD = "a long enough password"


class BrokenBackend(EmailBackend):
    """A mail server that is down."""

    def send_messages(self, *_: Any, **__: Any) -> int:
        raise ConnectionRefusedError


def sign_up(client: Client, name: str = "dora") -> HttpResponse:
    data = {"username": name, "email": f"{name}@team.example", "password1": PASSWORD, "password2": PASSWORD}
    return cast("HttpResponse", client.post("/sign-up/", data))


def read_link(words: str) -> str:
    found = re.search(rf"http://testserver(/\S*{words}\S*)", str(mail.outbox[-1].body))
    assert found
    return found[1]


@pytest.mark.django_db
def test_nobody_signs_in_before_the_address_is_confirmed(client: Client) -> None:
    assert sign_up(client).headers["Location"] == "/account/email/sent/"
    stranger = Client()
    response = stranger.post("/sign-in/", {"login": "dora", "password": PASSWORD})
    assert response.headers["Location"] == "/account/email/sent/"
    assert stranger.get("/account/").status_code == 302

    stranger.post(read_link("confirm"))
    assert EmailAddress.objects.get(email="dora@team.example").verified
    assert stranger.post("/sign-in/", {"login": "dora", "password": PASSWORD}).headers["Location"] == "/"
    assert stranger.get("/account/").status_code == 200


@pytest.mark.django_db
def test_a_mail_server_that_is_down_leaves_nothing_half_made(client: Client, settings: Settings) -> None:
    settings.EMAIL_BACKEND = f"{__name__}.BrokenBackend"
    response = sign_up(client)
    assert response.status_code == 503
    assert "Nothing was changed" in response.content.decode()
    assert not User.objects.exists()
    assert not EmailAddress.objects.exists()
    settings.EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
    assert sign_up(client).status_code == 302


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["admin", "a\u0301lice", "ali<b>", "x" * 41])
def test_a_username_that_deceives_is_refused(client: Client, name: str) -> None:
    assert sign_up(client, name).status_code == 200
    assert not User.objects.exists()


def test_a_forgotten_password_is_replaced_by_a_link(client: Client, people: People) -> None:
    EmailAddress.objects.create(user=people.alice, email="alice@team.example", verified=True, primary=True)
    client.post("/account/password/reset/", {"email": "alice@team.example"})
    response = client.get(read_link("reset"), follow=True)
    form = response.redirect_chain[-1][0]
    client.post(form, {"password1": PASSWORD, "password2": PASSWORD})
    assert client.post("/sign-in/", {"login": "alice", "password": PASSWORD}).headers["Location"] == "/"


@pytest.mark.parametrize("role", ["staff", "admin"])
def test_reviewers_see_nothing_before_a_second_factor(client: Client, people: People, role: str) -> None:
    user = getattr(people, role)
    Authenticator.objects.filter(user=user).delete()
    client.force_login(user)
    assert client.get("/runs/").headers["Location"] == "/account/second-factor/required/"
    assert "Authenticator app" in client.get("/account/second-factor/required/").content.decode()
    Authenticator.objects.create(user=user, type="totp", data={"secret": "JBSWY3DPEHPK3PXP"})
    assert client.get("/runs/").status_code == 200


def begin_without_second_factor(client: Client, user: User) -> None:
    """Sign `user` in by the password alone, as a reviewer could before there was a second factor."""
    Authenticator.objects.filter(user=user).delete()
    user.set_password(PASSWORD)
    user.save()
    EmailAddress.objects.create(user=user, email="staff@here.example", verified=True, primary=True)
    assert client.post("/sign-in/", {"login": user.username, "password": PASSWORD}).headers["Location"] == "/"


def compute_code(secret: str) -> str:
    return str(format_hotp_value(hotp_value(secret, int(time.time()) // 30)))


@pytest.mark.parametrize("role", ["staff", "admin"])
def test_a_session_that_began_by_the_password_alone_shows_the_second_factor_first(
    client: Client, people: People, role: str
) -> None:
    user = getattr(people, role)
    begin_without_second_factor(client, user)
    # Set up somewhere else.
    Authenticator.objects.create(user=user, type="totp", data={"secret": "JBSWY3DPEHPK3PXP"})
    proof = "/account/second-factor/reauthenticate/"
    for path in ("/review/", "/api/v1/me/", "/account/", "/account/tokens/", "/account/second-factor/"):
        assert client.get(path).headers["Location"].startswith(f"{proof}?next=%2F"), path
    client.post("/account/second-factor/totp/deactivate/")
    client.post("/account/tokens/", {"name": "mine", "scope": "submit", "days": "7"})
    assert Authenticator.objects.filter(user=user).exists()
    assert not user.tokens.exists()
    assert client.get(proof).status_code == 200
    assert (
        client.post(proof, {"code": compute_code("JBSWY3DPEHPK3PXP"), "next": "/review/"}).headers["Location"]
        == "/review/"
    )
    assert client.get("/review/").status_code == 200


def test_a_session_that_began_by_the_password_alone_can_always_be_ended(client: Client, people: People) -> None:
    begin_without_second_factor(client, people.staff)
    Authenticator.objects.create(user=people.staff, type="webauthn", data={"name": "key", "credential": {}})
    assert client.get("/runs/").headers["Location"].startswith("/account/second-factor/webauthn/reauthenticate/")
    assert client.post("/sign-out/").headers["Location"] == "/"
    assert client.get("/runs/").status_code == 200


@pytest.mark.django_db(transaction=True)
def test_setting_up_a_second_factor_shows_it(client: Client, people: People) -> None:
    begin_without_second_factor(client, people.staff)
    client.post("/account/reauthenticate/", {"password": PASSWORD})
    secret = client.get("/account/second-factor/totp/activate/").context["form"].secret
    client.post("/account/second-factor/totp/activate/", {"code": compute_code(secret)})
    assert client.get("/review/").status_code == 200


def test_a_second_factor_is_asked_for(client: Client, people: People) -> None:
    people.staff.set_password(PASSWORD)
    people.staff.save()
    EmailAddress.objects.create(user=people.staff, email="staff@here.example", verified=True, primary=True)
    response = client.post("/sign-in/", {"login": "staff", "password": PASSWORD})
    assert response.headers["Location"] == "/account/second-factor/authenticate/"
    assert client.get("/account/").status_code == 302
    code = format_hotp_value(hotp_value("JBSWY3DPEHPK3PXP", int(time.time()) // 30))
    assert client.post("/account/second-factor/authenticate/", {"code": code}).headers["Location"] == "/"
    assert client.get("/account/").status_code == 200


def test_other_sessions_are_ended(client: Client, people: People) -> None:
    other = Client()
    for browser in (client, other):
        browser.force_login(people.alice)
        browser.get("/account/")
        UserSession.objects.create_from_request(browser.get("/account/").wsgi_request)
    assert "Sign out all others" in client.get("/account/sessions/").content.decode()
    client.post("/account/sessions/")
    assert other.get("/account/").status_code == 302
    assert client.get("/account/").status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        *("/account/", "/account/email/", "/account/password/", "/account/second-factor/", "/account/sessions/"),
        *("/sign-out/", "/account/second-factor/totp/activate/"),
    ],
)
def test_every_page_of_an_account_is_in_the_house(client: Client, people: People, path: str) -> None:
    people.alice.set_password(PASSWORD)
    people.alice.save()
    EmailAddress.objects.create(user=people.alice, email="alice@team.example", verified=True, primary=True)
    client.post("/sign-in/", {"login": "alice", "password": PASSWORD})
    client.post("/account/reauthenticate/", {"password": PASSWORD})
    page = client.get(path).content.decode()
    assert page.count("<h1>") == 1
    assert 'class="masthead"' in page


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/sign-in/", "/sign-up/", "/account/password/reset/", "/account/email/sent/"])
def test_every_page_of_the_entrance_is_in_the_house(client: Client, path: str) -> None:
    page = client.get(path).content.decode()
    assert page.count("<h1>") == 1
    assert 'class="masthead"' in page
