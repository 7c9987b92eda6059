from __future__ import annotations

from typing import TYPE_CHECKING, cast

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed, Throttled
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request

from portal.accounts.middleware import lacks_second_factor
from portal.accounts.models import ApiToken, User
from portal.accounts.tokens import TokenRefused, find_token
from portal.api.limits import RefusalLimit

if TYPE_CHECKING:
    # Its module imports this one.
    from rest_framework.views import APIView

REALM = 'Bearer realm="KernelQuest"'


class TokenAuthentication(BaseAuthentication):
    """`Authorization: Bearer kq_...`."""

    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        """Return who sent the request; None when it carries no token."""
        words = get_authorization_header(request).split()
        if not words or words[0].lower() != b"bearer":
            return None
        if len(words) != 2:  # noqa: PLR2004  the scheme and the token
            raise AuthenticationFailed("Write the header as: Authorization: Bearer kq_...")
        try:
            token = find_token(words[1].decode("latin-1"))
        except TokenRefused as refusal:
            limit = RefusalLimit()
            if not limit.allow_request(request, cast("APIView", self)):
                raise Throttled(limit.wait(), "Too many tokens that open nothing came from your address.") from refusal
            raise AuthenticationFailed(str(refusal)) from refusal
        if lacks_second_factor(token.user):
            raise AuthenticationFailed("Reviewers need a second factor. Set one up on your account page.")
        return token.user, token

    def authenticate_header(self, request: Request) -> str:  # noqa: ARG002  the framework calls it so
        """Return what a refused request is told to send."""
        return REALM


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """How the schema speaks of tokens."""

    target_class = "portal.api.authentication.TokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: object) -> dict[str, str]:  # noqa: ARG002  as above
        """Return the scheme."""
        return {"type": "http", "scheme": "bearer", "description": "A token from your account page: `kq_...`"}


class ScopePermission(BasePermission):
    """Everybody reads; a token writes when its scope says so, and whoever has signed in writes."""

    message = "This token may only read. Make one that may submit."

    def has_permission(self, request: Request, view: APIView) -> bool:  # noqa: ARG002  as above
        """Return whether the request may go on."""
        if request.method in SAFE_METHODS:
            return True
        if not request.user.is_authenticated:
            return False
        return not isinstance(request.auth, ApiToken) or request.auth.scope == ApiToken.Scope.SUBMIT


class MemberPermission(ScopePermission):
    """As the above, for what only people with an account have."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        """Return whether the request may go on."""
        return request.user.is_authenticated and super().has_permission(request, view)
