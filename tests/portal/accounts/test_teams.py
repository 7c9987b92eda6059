from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.core import mail
from django.core.exceptions import PermissionDenied, ValidationError
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from portal.accounts.models import Invitation, Membership, Team
from portal.accounts.services import accept_invitation, change_role, find_invitation, invite_member, remove_member
from portal.review.models import TrailEvent
from portal.systems.models import System
from tests.conftest import People
from tests.portal.accounts.test_entrance import BrokenBackend


@pytest.fixture
def alice(client: Client, people: People) -> Client:
    client.force_login(people.alice)
    return client


def read_link() -> str:
    found = re.search(r"(/invitations/\S+)", str(mail.outbox[-1].body))
    assert found
    return found[1]


def role_of(people: People, name: str) -> str:
    return Membership.objects.get(team=people.team, user__username=name).role


def test_a_team_is_founded_with_a_system(alice: Client, people: People) -> None:
    response = alice.post("/teams/new/", {"name": "Späte Kerne"})
    assert response.headers["Location"] == "/teams/spate-kerne/"
    response = alice.post("/teams/spate-kerne/systems/new/", {"name": "Model 1", "scaffold": "Loop", "version": "2.1"})
    assert response.status_code == 302
    system = System.objects.get(slug="model-1")
    assert (str(system.scaffold), system.team.name) == ("Loop 2.1", "Späte Kerne")
    page = alice.get("/teams/spate-kerne/").content.decode()
    assert "Model 1" in page
    assert TrailEvent.objects.filter(action__in=["team.create", "system.create"]).count() == 2


@pytest.mark.parametrize("name", ["Kernel team", "kernels", "\u2603"])
def test_a_name_without_an_address_of_its_own_is_refused(alice: Client, people: People, name: str) -> None:
    people.team.slug = "kernel-team"
    people.team.save()
    Team.objects.create(slug="kernels", name="x")
    assert alice.post("/teams/new/", {"name": name}).status_code == 400
    assert Team.objects.count() == 3


def test_an_invitation_is_good_once(alice: Client, people: People) -> None:
    alice.post("/teams/kernels/invite/", {"email": "charlie@else.example", "role": "maintainer"})
    link = read_link()
    assert mail.outbox[-1].to == ["charlie@else.example"]
    charlie, dora = Client(), Client()
    assert charlie.get(link).status_code == 302
    charlie.force_login(people.charlie)
    assert "Join Kernel team?" in charlie.get(link).content.decode()
    assert charlie.post(link).headers["Location"] == "/teams/kernels/"
    assert role_of(people, "charlie") == "maintainer"
    dora.force_login(people.staff)
    assert dora.post(link).status_code == 410
    assert not people.team.memberships.filter(user=people.staff).exists()


def test_a_link_that_was_changed_withdrawn_or_is_old_opens_nothing(alice: Client, people: People) -> None:
    alice.post("/teams/kernels/invite/", {"email": "charlie@else.example", "role": "member"})
    link = read_link()
    charlie = Client()
    charlie.force_login(people.charlie)
    assert charlie.get(link[:-2] + "x/").status_code == 410
    Invitation.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert charlie.post(link).status_code == 410
    Invitation.objects.update(expires_at=timezone.now() + timedelta(days=1))
    invitation = Invitation.objects.get()
    alice.post(f"/teams/kernels/invitations/{invitation.public_id}/withdraw/")
    assert charlie.post(link).status_code == 410
    assert find_invitation("nonsense") is None


def test_two_people_with_one_link_do_not_both_get_in(people: People) -> None:
    invitation = invite_member(team=people.team, user=people.alice, email="x@else.example", role="member")
    accept_invitation(invitation=invitation, user=people.charlie)
    with pytest.raises(ValidationError, match="used or withdrawn"):
        accept_invitation(invitation=invitation, user=people.staff)


def test_nobody_is_invited_when_mail_is_down(alice: Client, people: People, settings: Settings) -> None:
    settings.EMAIL_BACKEND = f"{BrokenBackend.__module__}.BrokenBackend"
    response = alice.post("/teams/kernels/invite/", {"email": "charlie@else.example", "role": "member"})
    assert response.status_code == 400
    assert "nobody was invited" in response.content.decode()
    assert not Invitation.objects.exists()


def test_only_owners_give_roles(people: People) -> None:
    with pytest.raises(PermissionDenied):
        change_role(team=people.team, user=people.bob, member=people.bob, role="owner")
    change_role(team=people.team, user=people.alice, member=people.bob, role="maintainer")
    for role in ("owner", "maintainer"):
        with pytest.raises(PermissionDenied):
            invite_member(team=people.team, user=people.bob, email="x@y.example", role=role)
    with pytest.raises(PermissionDenied):
        remove_member(team=people.team, user=people.bob, member=people.alice)
    assert invite_member(team=people.team, user=people.bob, email="x@y.example", role="member")


def test_the_last_owner_stays(alice: Client, people: People) -> None:
    page = alice.post("/teams/kernels/members/alice/remove/", follow=True).content.decode()
    assert "A team needs an owner" in page
    alice.post("/teams/kernels/members/alice/role/", {"role": "member"})
    assert role_of(people, "alice") == "owner"
    alice.post("/teams/kernels/members/bob/role/", {"role": "owner"})
    assert alice.post("/teams/kernels/members/alice/remove/").headers["Location"] == "/account/"
    assert not people.team.memberships.filter(user=people.alice).exists()


def test_members_leave_and_are_removed(alice: Client, people: People) -> None:
    bob = Client()
    bob.force_login(people.bob)
    assert bob.post("/teams/kernels/members/alice/remove/").status_code == 403
    alice.post("/teams/kernels/members/bob/remove/")
    assert bob.get("/teams/kernels/").status_code == 404


@pytest.mark.parametrize(
    "path",
    [
        *("/teams/kernels/", "/teams/kernels/systems/new/", "/teams/kernels/systems/hand-written/"),
        *("/teams/kernels/invite/", "/teams/kernels/webhook/", "/teams/kernels/members/alice/role/"),
        "/teams/kernels/members/alice/remove/",
    ],
)
def test_a_team_is_nothing_to_strangers(client: Client, people: People, system: System, path: str) -> None:
    client.force_login(people.charlie)
    method = client.post if path.split("/")[3] in {"invite", "webhook", "members"} else client.get
    assert method(path).status_code == 404


def test_members_who_are_no_maintainers_change_nothing(client: Client, people: People, system: System) -> None:
    client.force_login(people.bob)
    page = client.get("/teams/kernels/").content.decode()
    assert "Invite somebody" not in page
    for path in ("invite/", "webhook/", "systems/new/", "systems/hand-written/", "members/alice/role/"):
        assert client.post(f"/teams/kernels/{path}", {"name": "x"}).status_code == 404
    system.refresh_from_db()
    assert system.name == "Hand-written"


def test_a_system_is_renamed_and_keeps_its_address(alice: Client, system: System) -> None:
    assert 'value="Hand-written"' in alice.get("/teams/kernels/systems/hand-written/").content.decode()
    alice.post("/teams/kernels/systems/hand-written/", {"name": "<i>By hand</i>", "vendor": "Us"})
    system.refresh_from_db()
    assert (system.slug, system.name, system.vendor) == ("hand-written", "<i>By hand</i>", "Us")
    assert "<i>By hand" not in alice.get("/teams/kernels/").content.decode()


def test_the_secret_of_a_webhook_is_shown_once(alice: Client, people: People) -> None:
    page = alice.post("/teams/kernels/webhook/", {"url": "https://hooks.example/in"}).content.decode()
    secret = people.team.webhook.secret
    assert secret in page
    assert secret not in alice.get("/teams/kernels/").content.decode()
    assert alice.post("/teams/kernels/webhook/", {"url": "https://127.0.0.1/"}).status_code == 400
    alice.post("/teams/kernels/webhook/", {"url": ""})
    assert not Team.objects.filter(webhook__isnull=False).exists()
