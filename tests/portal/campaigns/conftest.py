"""A draft of Alice's, and ways to fill it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from portal.campaigns.models import Campaign, CampaignFile
from portal.campaigns.services import create_campaign, put_file
from portal.catalog.models import Environment
from portal.systems.models import System
from tests.conftest import People
from tests.portal.factories import SOURCE

Put = Callable[..., CampaignFile]


@pytest.fixture
def draft(people: People, system: System, environment: Environment) -> Campaign:
    return create_campaign(user=people.alice, system=system, environment=environment, title="First")


@pytest.fixture
def put(people: People, draft: Campaign) -> Put:
    """Put a file into the draft as Alice; every name has bytes of its own unless they are given."""

    def put_one(name: str, content: str | bytes = "") -> CampaignFile:
        return put_file(campaign=draft, user=people.alice, name=name, content=content or f"{SOURCE}# {name}\n")[0]

    return put_one
