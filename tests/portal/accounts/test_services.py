from __future__ import annotations

import pytest
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from portal.accounts.models import Membership, Team
from portal.accounts.services import (
    accept_invitation,
    add_member,
    change_role,
    create_team,
    invite_member,
    remove_member,
)
from portal.systems.services import create_system
from tests.conftest import People


def test_a_team_has_its_owner(people: People) -> None:
    assert people.team.memberships.get(user=people.alice).role == Membership.Role.OWNER
    assert list(Team.objects.of(people.bob)) == [people.team]


@pytest.mark.parametrize("slug", ["kernels", "", "two words", "../up", "x" * 61])
def test_a_bad_or_taken_slug_is_refused(people: People, slug: str) -> None:
    with pytest.raises(ValidationError) as caught:
        create_team(slug=slug, name="A team", owner=people.charlie)
    assert "slug" in caught.value.message_dict


def test_a_member_is_kept_once_and_may_change_role(people: People) -> None:
    add_member(team=people.team, user=people.bob, role=Membership.Role.MAINTAINER)
    assert people.team.memberships.get(user=people.bob).role == "maintainer"


def test_the_database_refuses_an_unknown_role(people: People) -> None:
    with pytest.raises(IntegrityError, match="membership_role_known"), transaction.atomic():
        people.team.memberships.update(role="king")


@pytest.mark.parametrize("slug", ["", "two words", "<b>"])
def test_a_system_with_a_bad_slug_is_refused(people: People, slug: str) -> None:
    with pytest.raises(ValidationError):
        create_system(slug=slug, name="A system", team=people.team)


@pytest.mark.parametrize(
    ("role", "left"),
    [("owner", {"member", "owner"}), ("maintainer", {"member"}), ("member", set()), ("", set())],
    ids=["owner", "maintainer", "member", "removed"],
)
def test_nobody_comes_back_by_an_invitation_of_their_own(people: People, role: str, left: set[str]) -> None:
    add_member(team=people.team, user=people.bob, role=Membership.Role.OWNER)
    made = [
        invite_member(team=people.team, user=people.bob, email=f"{offered}@else.example", role=offered)
        for offered in ("member", "owner")
    ]
    kept = invite_member(team=people.team, user=people.alice, email="x@else.example", role="member")
    if role:
        change_role(team=people.team, user=people.alice, member=people.bob, role=role)
    else:
        remove_member(team=people.team, user=people.alice, member=people.bob)
    assert set(people.team.invitations.open().filter(invited_by=people.bob).values_list("role", flat=True)) == left
    assert accept_invitation(invitation=kept, user=people.charlie)
    if "owner" not in left:
        with pytest.raises(ValidationError, match="withdrawn"):
            accept_invitation(invitation=made[1], user=people.staff)
