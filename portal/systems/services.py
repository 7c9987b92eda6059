from __future__ import annotations

from portal.accounts.models import Team
from portal.systems.models import Scaffold, System


def create_system(*, slug: str, name: str, team: Team, vendor: str = "", scaffold: Scaffold | None = None) -> System:
    """Create a system of `team`. Raises ValidationError for a bad or taken slug."""
    system = System(slug=slug, name=name, vendor=vendor, scaffold=scaffold, team=team)
    system.full_clean()
    system.save()
    return system
