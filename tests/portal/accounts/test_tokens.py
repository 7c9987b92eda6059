from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from portal.accounts.models import ApiToken
from portal.accounts.tokens import TOKENS_A_PERSON, TokenRefused, create_token, find_token, hash_secret, revoke_token
from tests.conftest import People


@pytest.fixture
def alice(client: Client, people: People) -> Client:
    client.force_login(people.alice)
    return client


def make(alice: Client, **given: object) -> str:
    page = alice.post("/account/tokens/", {"name": "laptop", "scope": "submit", "days": "30"} | given)
    found = re.search(r"kq_[\w-]{43}", page.content.decode())
    return found[0] if found else ""


def test_a_token_is_shown_once_and_kept_as_a_digest(alice: Client, people: People) -> None:
    secret = make(alice)
    token = ApiToken.objects.get()
    assert token.digest == hash_secret(secret)
    assert secret.startswith(token.prefix)
    assert secret not in str(vars(token))
    assert secret not in alice.get("/account/tokens/").content.decode()
    assert find_token(secret) == token
    assert (token.expires_at - timezone.now()).days == 29


def test_use_is_noted_once_a_minute(alice: Client) -> None:
    secret = make(alice)
    find_token(secret)
    first = ApiToken.objects.get().last_used_at
    find_token(secret)
    assert ApiToken.objects.get().last_used_at == first
    assert first is not None
    ApiToken.objects.update(last_used_at=first - timedelta(minutes=2))
    find_token(secret)
    again = ApiToken.objects.get().last_used_at
    assert again is not None
    assert again >= first


def test_a_revoked_one_opens_nothing(alice: Client) -> None:
    secret = make(alice)
    alice.post(f"/account/tokens/{ApiToken.objects.get().pk}/revoke/")
    with pytest.raises(TokenRefused, match="revoked at"):
        find_token(secret)
    assert "laptop" not in alice.get("/account/tokens/").content.decode().partition("Your tokens")[2]


def test_an_expired_one_says_so(alice: Client) -> None:
    secret = make(alice)
    ApiToken.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    with pytest.raises(TokenRefused, match="expired at"):
        find_token(secret)
    assert "expired" in alice.get("/account/tokens/").content.decode()


def test_that_of_a_closed_account_opens_nothing(alice: Client, people: People) -> None:
    secret = make(alice)
    people.alice.is_active = False
    people.alice.save()
    with pytest.raises(TokenRefused, match="closed"):
        find_token(secret)


@pytest.mark.django_db
@pytest.mark.parametrize("secret", ["", "kq_", "kq_" + "a" * 43, "k\u00e4", "Bearer"])
def test_anything_else_opens_nothing(secret: str) -> None:
    with pytest.raises(TokenRefused, match="no token"):
        find_token(secret)


def test_nobody_revokes_that_of_somebody_else(alice: Client, people: People) -> None:
    token, secret = create_token(user=people.bob, name="x", scope="read", days=7)
    assert alice.post(f"/account/tokens/{token.pk}/revoke/").status_code == 404
    assert find_token(secret)
    revoke_token(token=token, user=people.bob)


@pytest.mark.parametrize("given", [{"days": "36500"}, {"scope": "admin"}, {"name": ""}])
def test_what_is_not_offered_is_refused(alice: Client, given: dict[str, str]) -> None:
    assert make(alice, **given) == ""
    assert not ApiToken.objects.exists()


def test_there_is_an_end_to_tokens(alice: Client, people: People) -> None:
    for _ in range(TOKENS_A_PERSON):
        create_token(user=people.alice, name="x", scope="read", days=7)
    assert make(alice) == ""
