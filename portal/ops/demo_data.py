"""The people and systems of the demo."""

from __future__ import annotations

import secrets

from allauth.account.models import EmailAddress
from django.db import transaction

from portal.accounts.models import Membership, Team, User
from portal.accounts.services import add_member, create_team
from portal.systems.models import System
from portal.systems.services import create_system

DEMO_USER = "demo"
DEMO_MAIL = "demo@demo.invalid"
DEMO_TEAM = "demo"
DEMO_SYSTEMS = {"sample-solutions": "Sample solutions", "hand-written": "Hand-written kernels"}


@transaction.atomic
def create_demo_data(*, password: str | None = None) -> dict[str, str]:
    """Make the demo's user, team and systems where they are missing, and return the sign-in.

    The user gets `password`, or a new generated one.
    """
    password = password or secrets.token_urlsafe(12)
    user, _ = User.objects.get_or_create(username=DEMO_USER)
    user.set_password(password)
    user.save(update_fields=["password"])
    # Nobody confirms an address in the demo; a user without a confirmed one could not sign in.
    EmailAddress.objects.get_or_create(user=user, email=DEMO_MAIL, defaults={"verified": True, "primary": True})
    team = Team.objects.filter(slug=DEMO_TEAM).first() or create_team(slug=DEMO_TEAM, name="Demo team", owner=user)
    add_member(team=team, user=user, role=Membership.Role.OWNER)
    for slug, name in DEMO_SYSTEMS.items():
        if not System.objects.filter(slug=slug).exists():
            create_system(slug=slug, name=name, team=team)
    return {"username": user.username, "password": password}
