from __future__ import annotations

from django.db import transaction

from portal.accounts.models import Membership, Team, User


@transaction.atomic
def create_team(*, slug: str, name: str, owner: User) -> Team:
    """Create a team owned by `owner`. Raises ValidationError for a bad or taken slug."""
    team = Team(slug=slug, name=name)
    team.full_clean()
    team.save()
    add_member(team=team, user=owner, role=Membership.Role.OWNER)
    return team


def add_member(*, team: Team, user: User, role: str = Membership.Role.MEMBER) -> Membership:
    """Make `user` a member of `team` in this role, whatever the role was before."""
    membership, _ = Membership.objects.update_or_create(team=team, user=user, defaults={"role": role})
    return membership
