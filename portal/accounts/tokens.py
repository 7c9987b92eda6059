"""Keys for the API. A key has 256 random bits, so a plain SHA-256 of it cannot be turned back by guessing."""

from __future__ import annotations

import hashlib
import secrets
from datetime import timedelta

from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone

from portal.accounts.models import ApiToken, User
from portal.review.trail import record_event

MARK = "kq_"
LIFETIMES_DAYS = (7, 30, 90, 365)
TOKENS_A_PERSON = 20
_PREFIX_LENGTH = 9
# Noting each use would make a writer of every reader.
_USE_NOTED_EVERY = timedelta(minutes=1)


class TokenRefused(Exception):
    """Why a key opens nothing; the message says what to do."""


def hash_secret(secret: str) -> str:
    """Return what is kept of a key."""
    return hashlib.sha256(secret.encode()).hexdigest()


@transaction.atomic
def create_token(*, user: User, name: str, scope: str, days: int) -> tuple[ApiToken, str]:
    """Make a key; return it with its secret, which is kept nowhere. Raises ValidationError."""
    if scope not in ApiToken.Scope.values or days not in LIFETIMES_DAYS:
        raise ValidationError("Choose a scope and a lifetime from the lists.")
    if user.tokens.kept().filter(expires_at__gt=Now()).count() >= TOKENS_A_PERSON:
        raise ValidationError(f"You have {TOKENS_A_PERSON} tokens. Revoke one that you do not need.")
    secret = MARK + secrets.token_urlsafe(32)
    token = ApiToken(
        user=user,
        name=name,
        scope=scope,
        digest=hash_secret(secret),
        prefix=secret[:_PREFIX_LENGTH],
        expires_at=timezone.now() + timedelta(days=days),
    )
    token.full_clean()
    token.save()
    record_event(actor=user, action="token.create", subject=token, after={"name": name, "scope": scope, "days": days})
    return token, secret


@transaction.atomic
def revoke_token(*, token: ApiToken, user: User) -> None:
    """Let a key open nothing any more."""
    if ApiToken.objects.kept().filter(pk=token.pk).update(revoked_at=Now()):
        record_event(actor=user, action="token.revoke", subject=token, before={"name": token.name})


def find_token(secret: str) -> ApiToken:
    """Return the key that `secret` is, and note its use. Raises TokenRefused."""
    if not secret.isascii():
        raise TokenRefused("This is no token of this installation. Make one on your account page.")
    token = ApiToken.objects.select_related("user").filter(digest=hash_secret(secret)).first()
    if token is None:
        raise TokenRefused("This is no token of this installation. Make one on your account page.")
    if token.revoked_at:
        raise TokenRefused(f"The token was revoked at {token.revoked_at:%Y-%m-%d %H:%M} UTC. Make another one.")
    now = timezone.now()
    if token.expires_at <= now:
        raise TokenRefused(f"The token expired at {token.expires_at:%Y-%m-%d %H:%M} UTC. Make another one.")
    if not token.user.is_active:
        raise TokenRefused("The account of this token is closed.")
    stale = Q(last_used_at__isnull=True) | Q(last_used_at__lt=now - _USE_NOTED_EVERY)
    if token.last_used_at is None or token.last_used_at < now - _USE_NOTED_EVERY:
        ApiToken.objects.filter(stale, pk=token.pk).update(last_used_at=now)
    return token
