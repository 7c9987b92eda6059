"""What is done with accounts stands in the trail."""

from __future__ import annotations

import time

import pytest
from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import format_hotp_value, hotp_value
from allauth.usersessions.models import UserSession
from django.core import mail
from django.test import Client
from pytest_django import DjangoCaptureOnCommitCallbacks, Settings

from portal.accounts.models import User
from portal.review.models import TrailEvent
from tests.conftest import People
from tests.portal.accounts.test_entrance import PASSWORD, BrokenBackend, read_link, sign_up

ANOTHER = "another long enough password"


@pytest.fixture
def alice(people: People) -> User:
    """Somebody who can sign in."""
    people.alice.set_password(PASSWORD)
    people.alice.save()
    EmailAddress.objects.create(user=people.alice, email="alice@team.example", verified=True, primary=True)
    return people.alice


def sign_in(client: Client, name: str = "alice", password: str = PASSWORD) -> None:
    client.post("/sign-in/", {"login": name, "password": password}, REMOTE_ADDR="192.0.2.7")


def sign_in_afresh(client: Client) -> None:
    """Sign in, and give the password once more, as what is delicate asks for."""
    sign_in(client)
    client.post("/account/reauthenticate/", {"password": PASSWORD})


def list_actions(user: User) -> list[str]:
    return [event.action.removeprefix("account.") for event in TrailEvent.objects.about(user)]


def compute_code(secret: str) -> str:
    return str(format_hotp_value(hotp_value(secret, int(time.time()) // 30)))


def test_signing_in_and_out(client: Client, alice: User) -> None:
    sign_in(client)
    client.post("/sign-out/")
    assert list_actions(alice) == ["sign_in", "sign_out"]
    event = TrailEvent.objects.about(alice)[0]
    assert (event.actor, event.address) == (alice, "192.0.2.7")
    assert len(event.request_id) == 32


@pytest.mark.parametrize("name", ["alice", "ALICE", "alice@team.example"])
def test_a_wrong_password_is_nobodys_deed(client: Client, alice: User, name: str) -> None:
    sign_in(client, name, "wrong")
    event = TrailEvent.objects.about(alice).get()
    assert (event.action, event.actor, event.address) == ("account.sign_in_failed", None, "192.0.2.7")
    assert "wrong" not in event.after


def test_names_that_do_not_exist_do_not_fill_the_trail(client: Client, alice: User) -> None:
    before = TrailEvent.objects.count()
    for name in ("nobody", "nobody@team.example", ""):
        sign_in(client, name, "wrong")
    assert TrailEvent.objects.count() == before


@pytest.mark.django_db
def test_a_new_account_and_its_address(client: Client) -> None:
    sign_up(client)
    client.post(read_link("confirm"))
    user = User.objects.get()
    assert list_actions(user)[:2] == ["sign_up", "email_confirmed"]
    assert TrailEvent.objects.about(user)[1].after_values == {"email": "dora@team.example"}


@pytest.mark.django_db
def test_an_account_that_came_to_nothing_leaves_nothing(client: Client, settings: Settings) -> None:
    settings.EMAIL_BACKEND = f"{BrokenBackend.__module__}.BrokenBackend"
    assert sign_up(client).status_code == 503
    assert not TrailEvent.objects.exists()


def test_a_password_that_was_forgotten(client: Client, alice: User) -> None:
    client.post("/account/password/reset/", {"email": "alice@team.example"})
    form = client.get(read_link("reset"), follow=True).redirect_chain[-1][0]
    client.post(form, {"password1": ANOTHER, "password2": ANOTHER})
    assert list_actions(alice) == ["password_reset_asked", "password_reset"]
    assert [event.actor for event in TrailEvent.objects.about(alice)] == [None, alice]
    assert not any(PASSWORD in event.after or ANOTHER in event.after for event in TrailEvent.objects.all())


def test_a_password_that_was_changed(client: Client, alice: User) -> None:
    sign_in(client)
    client.post("/account/password/", {"oldpassword": PASSWORD, "password1": ANOTHER, "password2": ANOTHER})
    assert list_actions(alice) == ["sign_in", "password_changed"]


def test_addresses(client: Client, alice: User) -> None:
    other = EmailAddress.objects.create(user=alice, email="other@team.example", verified=True)
    sign_in_afresh(client)
    client.post("/account/email/", {"action_primary": "", "email": other.email})
    client.post("/account/email/", {"action_remove": "", "email": "alice@team.example"})
    changed, deleted = list(TrailEvent.objects.about(alice))[1:]
    assert (changed.action, changed.after_values["to_email"]) == ("account.email_changed", "other@team.example")
    assert (deleted.action, deleted.after_values["deleted_email"]) == ("account.email_deleted", "alice@team.example")


def test_second_factors(
    client: Client, alice: User, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    sign_in_afresh(client)
    secret = client.get("/account/second-factor/totp/activate/").context["form"].secret
    with django_capture_on_commit_callbacks(execute=True):
        client.post("/account/second-factor/totp/activate/", {"code": compute_code(secret)})
    assert Authenticator.objects.filter(user=alice).count() == 2
    with django_capture_on_commit_callbacks(execute=True):
        client.post("/account/second-factor/recovery-codes/generate/")
    client.post("/account/second-factor/totp/deactivate/")
    actions = list_actions(alice)
    assert actions[0] == "sign_in"
    assert {"totp_activated", "recovery_codes_generated", "totp_deactivated"} <= set(actions)
    assert not any(secret in event.after for event in TrailEvent.objects.all())


def test_a_wrong_code(client: Client, people: People, alice: User) -> None:
    Authenticator.objects.create(user=alice, type=Authenticator.Type.TOTP, data={"secret": "JBSWY3DPEHPK3PXP"})
    sign_in(client)
    client.post("/account/second-factor/authenticate/", {"code": "000000"})
    assert list_actions(alice) == ["second_factor_failed"]
    client.post("/account/second-factor/authenticate/", {"code": compute_code("JBSWY3DPEHPK3PXP")})
    assert list_actions(alice) == ["second_factor_failed", "sign_in"]


def test_ended_sessions(client: Client, alice: User) -> None:
    other = Client()
    for browser in (client, other):
        sign_in(browser)
        UserSession.objects.create_from_request(browser.get("/account/").wsgi_request)
    client.post("/account/sessions/")
    event = TrailEvent.objects.about(alice).last()
    assert event is not None
    assert (event.action, event.after_values) == ("account.sessions_ended", {"sessions": 1})


def test_no_mail_is_sent_for_what_the_trail_hears(client: Client, alice: User) -> None:
    sign_in(client)
    mail.outbox.clear()
    client.post("/account/password/", {"oldpassword": PASSWORD, "password1": ANOTHER, "password2": ANOTHER})
    assert mail.outbox == []
