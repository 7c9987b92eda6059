from __future__ import annotations

from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils.text import slugify

from portal.accounts.models import Team, User
from portal.accounts.services import check_manager
from portal.review.trail import record_event
from portal.systems.models import Scaffold, System

SYSTEMS_A_TEAM = 100


def create_system(*, slug: str, name: str, team: Team, vendor: str = "", scaffold: Scaffold | None = None) -> System:
    """Create a system of `team`. Raises ValidationError for a bad or taken slug."""
    system = System(slug=slug, name=name, vendor=vendor, scaffold=scaffold, team=team)
    system.full_clean()
    system.save()
    return system


def find_scaffold(name: str, version: str) -> Scaffold | None:
    """Return the scaffold of this name and version, made when it is not there; None without a name."""
    if not name:
        return None
    slug = slugify(f"{name} {version}".replace(".", "-"))[:60]
    if not slug:
        raise ValidationError({"scaffold": "Use some Latin letters or digits."})
    known = Scaffold.objects.filter(name=name, version=version).first()
    if known:
        return known
    scaffold = Scaffold(slug=slug, name=name, version=version)
    if Scaffold.objects.filter(slug=slug).exists():
        raise ValidationError({"scaffold": "A scaffold of nearly this name is known. Write it as the others do."})
    scaffold.full_clean()
    scaffold.save()
    return scaffold


@transaction.atomic
def found_system(  # noqa: PLR0913  each is named at the call
    *, user: User, team: Team, name: str, vendor: str = "", scaffold: str = "", version: str = ""
) -> System:
    """Create a system of `team`, its slug made from its name. Raises ValidationError and PermissionDenied."""
    check_manager(team, user)
    if team.systems.count() >= SYSTEMS_A_TEAM:
        raise ValidationError(f"A team has at most {SYSTEMS_A_TEAM} systems.")
    slug = slugify(name.replace(".", "-"))[:60]
    if not slug or System.objects.filter(slug=slug).exists():
        raise ValidationError({"name": "This name is taken, or has no Latin letters and digits. Choose another one."})
    system = create_system(slug=slug, name=name, team=team, vendor=vendor, scaffold=find_scaffold(scaffold, version))
    record_event(actor=user, action="system.create", subject=system, after=describe(system))
    return system


@transaction.atomic
def edit_system(  # noqa: PLR0913  each is named at the call
    *, user: User, system: System, name: str, vendor: str = "", scaffold: str = "", version: str = ""
) -> System:
    """Change what a system is called; its address stays. Raises ValidationError and PermissionDenied."""
    check_manager(system.team, user)
    before = describe(system)
    system.name, system.vendor, system.scaffold = name, vendor, find_scaffold(scaffold, version)
    system.full_clean()
    system.save()
    record_event(actor=user, action="system.edit", subject=system, before=before, after=describe(system))
    return system


def describe(system: System) -> dict[str, str]:
    """Return what the trail keeps of a system."""
    return {"name": system.name, "vendor": system.vendor, "scaffold": str(system.scaffold or "")}
