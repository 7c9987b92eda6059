"""What people do with teams."""

from __future__ import annotations

from datetime import timedelta
from smtplib import SMTPException
from uuid import UUID

from django.conf import settings
from django.core import signing
from django.core.exceptions import PermissionDenied, ValidationError
from django.core.mail import send_mail
from django.db import transaction
from django.db.models.functions import Now
from django.urls import reverse
from django.utils import timezone
from django.utils.text import slugify

from portal.accounts.models import MANAGERS, Invitation, Membership, Team, User
from portal.review.trail import Values, record_event

_SIGNER = signing.Signer(salt="portal.accounts.invitation")
OPEN_INVITATIONS = 50
TEAMS_A_PERSON = 20


def _record(action: str, actor: User, team: Team, before: Values | None = None, after: Values | None = None) -> None:
    record_event(actor=actor, action=action, subject=team, before=before, after=after)


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


@transaction.atomic
def found_team(*, user: User, name: str) -> Team:
    """Create a team with a slug made from its name. Raises ValidationError."""
    if user.memberships.count() >= TEAMS_A_PERSON:
        raise ValidationError(f"You are in {TEAMS_A_PERSON} teams, which is as many as one may be in.")
    slug = slugify(name)[:50]
    if not slug:
        raise ValidationError({"name": "Use some Latin letters or digits: the address of the team is made from them."})
    if Team.objects.filter(slug=slug).exists():
        raise ValidationError({"name": "There is a team of this name. Choose another one."})
    team = create_team(slug=slug, name=name, owner=user)
    _record("team.create", user, team, after={"name": name})
    return team


def check_manager(team: Team, user: User) -> Membership:
    """Return the membership of an owner or a maintainer of `team`. Raises PermissionDenied for anybody else."""
    membership = team.memberships.filter(user=user, role__in=MANAGERS).first()
    if membership is None:
        raise PermissionDenied("Only owners and maintainers of the team may do this.")
    return membership


def _check_owner(team: Team, user: User) -> None:
    if check_manager(team, user).role != Membership.Role.OWNER:
        raise PermissionDenied("Only owners of the team may do this.")


def sign_invitation(invitation: Invitation) -> str:
    """Return the last part of an invitation's link."""
    return _SIGNER.sign(str(invitation.public_id))


def find_invitation(signed: str) -> Invitation | None:
    """Return the open invitation that a link belongs to, or None."""
    try:
        public_id = UUID(_SIGNER.unsign(signed))
    except (signing.BadSignature, ValueError):
        return None
    return Invitation.objects.open().filter(public_id=public_id).select_related("team", "invited_by").first()


@transaction.atomic
def invite_member(*, team: Team, user: User, email: str, role: str) -> Invitation:
    """Invite somebody by mail. Nothing is kept when the mail cannot be sent.

    Raises ValidationError, and PermissionDenied when `user` may not invite in this role.
    """
    Team.objects.select_for_update().get(pk=team.pk)
    if role != Membership.Role.MEMBER:
        _check_owner(team, user)
    check_manager(team, user)
    if role not in Membership.Role.values:
        raise ValidationError({"role": f"Choose one of: {', '.join(Membership.Role.values)}."})
    if team.invitations.open().count() >= OPEN_INVITATIONS:
        raise ValidationError("Too many invitations are open. Withdraw some first.")
    team.invitations.open().filter(email__iexact=email).update(revoked_at=Now())
    expires_at = timezone.now() + timedelta(days=settings.INVITATION_DAYS)
    invitation = Invitation(team=team, email=email, role=role, invited_by=user, expires_at=expires_at)
    invitation.full_clean()
    invitation.save()
    _mail_invitation(invitation)
    _record("team.invite", user, team, after={"email": email, "role": role})
    return invitation


def _mail_invitation(invitation: Invitation) -> None:
    link = settings.PUBLIC_ADDRESS + reverse("accounts:invitation", args=[sign_invitation(invitation)])
    who, team = invitation.invited_by.get_username(), invitation.team.name
    text = (
        f"{who} invites you to the team {team} on KernelQuest, as {invitation.role}.\n\n{link}\n\n"
        f"The link is good once, until {invitation.expires_at:%Y-%m-%d %H:%M} UTC. "
        "If you do not know what this is about, leave it be.\n"
    )
    try:
        # A line break in a name would begin another header.
        send_mail(f"KernelQuest: join {' '.join(team.split())}", text, None, [invitation.email])
    except (OSError, SMTPException) as error:
        raise ValidationError("Mail cannot be sent now, so nobody was invited. Try again in a few minutes.") from error


@transaction.atomic
def revoke_invitation(*, invitation: Invitation, user: User) -> None:
    """Withdraw an invitation, so that its link is good no more. Raises PermissionDenied."""
    check_manager(invitation.team, user)
    Invitation.objects.open().filter(pk=invitation.pk).update(revoked_at=Now())
    _record("team.uninvite", user, invitation.team, before={"email": invitation.email})


@transaction.atomic
def accept_invitation(*, invitation: Invitation, user: User) -> Membership:
    """Make `user` a member by an invitation, once. Raises ValidationError when it is used, withdrawn or expired."""
    # Whoever removes a member withdraws that member's invitations under the same lock.
    Team.objects.select_for_update().get(pk=invitation.team_id)
    if invitation.team.memberships.filter(user=user).exists():
        raise ValidationError("You are in this team already.")
    row = Invitation.objects.open().filter(pk=invitation.pk)
    if not row.update(accepted_at=Now(), accepted_by=user):
        raise ValidationError("This invitation has been used or withdrawn, or has expired. Ask for another one.")
    membership = add_member(team=invitation.team, user=user, role=invitation.role)
    _record("team.join", user, invitation.team, after={"user": user.get_username(), "role": invitation.role})
    return membership


def _lock_membership(team: Team, member: User) -> Membership:
    Team.objects.select_for_update().get(pk=team.pk)
    membership = team.memberships.filter(user=member).first()
    if membership is None:
        raise ValidationError(f"{member.get_username()} is not in the team any more.")
    return membership


def _check_not_last_owner(membership: Membership) -> None:
    owners = Membership.objects.filter(team=membership.team_id, role=Membership.Role.OWNER)
    if not owners.exclude(pk=membership.pk).exists():
        raise ValidationError("A team needs an owner. Make somebody else an owner first.")


def _end_invitations(team: Team, member: User, role: str = "") -> None:
    """Withdraw what `member` invited to and could not any more in this role, or outside the team: it may be a way back."""
    if role == Membership.Role.OWNER:
        return
    invitations = team.invitations.open().filter(invited_by=member)
    if role == Membership.Role.MAINTAINER:
        invitations = invitations.exclude(role=Membership.Role.MEMBER)
    invitations.update(revoked_at=Now())


@transaction.atomic
def change_role(*, team: Team, user: User, member: User, role: str) -> None:
    """Give a member another role. Raises ValidationError, and PermissionDenied unless `user` is an owner."""
    if role not in Membership.Role.values:
        raise ValidationError(f"Choose one of: {', '.join(Membership.Role.values)}.")
    membership = _lock_membership(team, member)
    _check_owner(team, user)
    if membership.role == Membership.Role.OWNER != role:
        _check_not_last_owner(membership)
    before, membership.role = membership.role, role
    membership.save(update_fields=["role"])
    _end_invitations(team, member, role)
    name = member.get_username()
    _record("team.role", user, team, before={"user": name, "role": before}, after={"user": name, "role": role})


@transaction.atomic
def remove_member(*, team: Team, user: User, member: User) -> None:
    """Take a member out of a team, or leave it. Raises ValidationError and PermissionDenied.

    Maintainers remove members, owners everybody; the last owner stays.
    """
    membership = _lock_membership(team, member)
    if user != member:
        if membership.role == Membership.Role.MEMBER:
            check_manager(team, user)
        else:
            _check_owner(team, user)
    if membership.role == Membership.Role.OWNER:
        _check_not_last_owner(membership)
    membership.delete()
    _end_invitations(team, member)
    action = "team.leave" if user == member else "team.remove"
    _record(action, user, team, before={"user": member.get_username(), "role": membership.role})
