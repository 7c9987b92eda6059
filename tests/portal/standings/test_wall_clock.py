from __future__ import annotations

import pytest
from django.core.exceptions import ValidationError

from portal.runs.services import LONGEST_WALL_CLOCK
from tests.conftest import Submit


def test_a_run_keeps_how_long_the_agent_worked(submit: Submit) -> None:
    assert submit().wall_clock_seconds is None
    assert submit(wall_clock_seconds=1_800).wall_clock_seconds == 1_800


@pytest.mark.parametrize("seconds", [-1, 0, LONGEST_WALL_CLOCK + 1, 10**30])
def test_a_time_that_cannot_be_is_refused(submit: Submit, seconds: int) -> None:
    with pytest.raises(ValidationError, match="whole seconds, from 1 to 604,800"):
        submit(wall_clock_seconds=seconds)
