from __future__ import annotations

import pytest

from portal.catalog.models import Environment
from portal.ops.services import register_worker


@pytest.fixture
def gpu(catalog: None) -> Environment:
    """An environment that times runs, with a worker at work."""
    register_worker(name="host:h200", environment="h200", host="host")
    return Environment.objects.get(slug="h200")
