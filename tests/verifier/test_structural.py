"""The arithmetic of gate 1."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from verifier.gates.structural import (
    StructuralGate,
    bound_share,
    count_library,
    count_share,
    find_third_largest,
    measure_change,
)
from verifier.session import CallRecord
from verifier.task import Tolerance, load_task
from verifier.verdict import Evidence

TOLERANCE = Tolerance(rule="allclose", rtol=1e-3, atol=1e-3, why="a test of the rule")


@pytest.mark.parametrize(
    ("figures", "third"), [([7], 7), ([7, 3], 3), ([1, 9, 5], 1), ([9, 9, 9, 0], 9), ([9, 8, 2, 1, 2], 2)]
)
def test_the_two_worst_calls_are_overlooked(figures: list[int], third: int) -> None:
    assert find_third_largest(figures) == third


@given(st.lists(st.integers(), min_size=3))
def test_at_most_two_calls_are_worse_than_the_third_worst(figures: list[int]) -> None:
    third = find_third_largest(figures)
    assert sum(figure > third for figure in figures) <= 2
    assert third in figures


@pytest.mark.parametrize(
    ("others", "timed", "share"),
    [(0.0, 1.0, 1.0), (0.55, 1.0, 0.5), (1.1, 1.0, 0.0), (2.0, 1.0, 0.0), (0.99, 10.0, 0.91)],
)
def test_what_others_take_bounds_the_own_share(others: float, timed: float, share: float) -> None:
    assert bound_share(others, timed) == pytest.approx(share)


def test_kernels_of_other_files_count_as_library_work() -> None:
    usage = {"own": {"operations": 60}, "foreign": {"operations": 25}}
    record = CallRecord(kernels=usage, library_operations={"mm": 10, "add": 5})
    assert count_library(record, {"own"}) == 40
    assert count_share(record, {"own"}) == pytest.approx(0.6)
    assert count_share(CallRecord(), set()) == 0.0


def test_a_change_beyond_the_budget_counts() -> None:
    base = torch.tensor([1.0, 2.0, 3.0, 4.0])
    assert measure_change([base.clone()], [base], TOLERANCE) == 0.0
    assert measure_change([base + torch.tensor([0.0, 0.0, 0.5, 0.001])], [base], TOLERANCE) == 0.25
    assert measure_change([torch.full_like(base, torch.nan)], [base], TOLERANCE) == 1.0


def test_where_most_results_are_zero_the_others_count() -> None:
    base = torch.tensor([0.0] * 9 + [1.0])
    assert measure_change([torch.zeros(10)], [base], TOLERANCE) == 1.0
    assert measure_change([torch.cat([torch.ones(1), base[1:]])], [base], TOLERANCE) == pytest.approx(0.1)


def test_outputs_count_together() -> None:
    base = [torch.ones(3), torch.tensor([1, 2, 3, 4, 5])]
    changed = [torch.ones(3), torch.tensor([1, 2, 3, 5, 4])]
    assert measure_change(changed, base, TOLERANCE) == pytest.approx(2 / 8)
    assert measure_change([torch.zeros(3), torch.zeros(5, dtype=torch.int64)], base, TOLERANCE) == 1.0


def profile(own: float, library: float, distribution: str = "gauss") -> CallRecord:
    """Return the record of a profiled call; times in milliseconds."""
    activities = [
        {"name": "project_row", "label": "own digest", "microseconds": own * 1e3},
        {"name": "gemm", "label": "library", "microseconds": library * 1e3},
    ]
    return CallRecord(measured={"profile": activities, "distribution": distribution})


@pytest.mark.parametrize(
    ("records", "timed", "share"),
    [
        ([profile(3.0, 1.0)], 4.0, 0.75),
        ([profile(3.0, 1.0), profile(1.0, 3.0, "ties")], 4.0, 0.25),
        # Own kernels that idle under the profiler alone: a timed call has no room for them.
        ([profile(9.0, 1.0)], 1.0, 0.1 / 1.1),
        ([profile(9.0, 1.0)], None, 0.9),
    ],
)
def test_the_own_share_is_the_worst_of_all_profiled_calls(
    records: list[CallRecord], timed: float | None, share: float
) -> None:
    timing = None if timed is None else SimpleNamespace(sides={"candidate": SimpleNamespace(mean=timed)})
    trial: Any = SimpleNamespace(task=load_task("l1-09"), profiled=records, timing=timing, evidence=Evidence())
    assert StructuralGate.measure_share(trial, {"digest"}) == pytest.approx(share)
    assert [item.name for item in trial.evidence.activities] != []
