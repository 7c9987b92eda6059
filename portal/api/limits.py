from __future__ import annotations

from rest_framework.request import Request
from rest_framework.throttling import AnonRateThrottle, SimpleRateThrottle, UserRateThrottle

from portal.review.middleware import find_address


class VisitorLimit(AnonRateThrottle):
    """How often somebody without an account may ask."""

    scope = "visitor"

    def get_ident(self, request: Request) -> str:
        """Return by what visitors are told apart."""
        return find_address(request._request)  # noqa: SLF001  the framework wraps it


class MemberLimit(UserRateThrottle):
    """How often somebody with an account may ask."""

    scope = "member"


class RefusalLimit(SimpleRateThrottle):
    """How often tokens that open nothing may be shown from one address."""

    scope = "refusal"

    def get_cache_key(self, request: Request, view: object) -> str:  # noqa: ARG002  the framework calls it so
        """Return by what they are counted."""
        return self.cache_format % {"scope": self.scope, "ident": find_address(request._request)}  # noqa: SLF001  as above


class SubmissionLimit(UserRateThrottle):
    """How often somebody may try to submit; the team's quota counts what was taken."""

    scope = "submission"
