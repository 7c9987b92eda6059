from __future__ import annotations

import pytest

from verifier.environment import load_environment
from verifier.floor import compute_floor
from verifier.task import load_task


@pytest.mark.parametrize(
    ("task", "environment", "milliseconds", "bound"),
    [
        ("l1-09", "l40s", 0.1942, "bytes"),
        ("l1-09", "h200", 0.045, "bytes"),
        ("l1-01", "l40s", 0.05947, "bytes"),
        ("l2-01", "l40s", 48.01, "operations"),
        ("l2-01", "h200", 65.64, "operations"),
    ],
)
def test_floors_follow_from_bytes_and_operations(task: str, environment: str, milliseconds: float, bound: str) -> None:
    specification = load_task(task).specification
    floor = compute_floor(specification, load_environment(environment).device, specification.dims.timed)
    assert floor is not None
    assert floor.milliseconds == pytest.approx(milliseconds, rel=2e-3)
    assert floor.bound == bound
    assert floor.rejects_below == pytest.approx(0.97 * floor.milliseconds)
