from __future__ import annotations

import math

import pytest
import torch

from verifier.oracle import compare, compare_all
from verifier.task import Tolerance

ALLCLOSE = Tolerance(rule="allclose", rtol=1e-3, atol=1e-4, why="a test of the rule")
EXACT = Tolerance(rule="exact", why="a test of the rule")


def test_every_element_counts() -> None:
    oracle = torch.ones(1000, dtype=torch.float64)
    output = oracle.float()
    assert compare(output, oracle, ALLCLOSE).passed
    output[777] = 1.01
    result = compare(output, oracle, ALLCLOSE)
    assert (result.wrong, result.worst_index, result.passed) == (1, (777,), False)
    assert result.budget_ratio == pytest.approx(0.01 / 1.1e-3, rel=1e-4)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_nonfinite_values_are_never_within_budget(bad: float) -> None:
    oracle = torch.zeros(4, dtype=torch.float64)
    output = torch.tensor([0.0, bad, 0.0, 0.0])
    result = compare(output, oracle, ALLCLOSE)
    assert (result.wrong, result.nonfinite_mismatches) == (1, 1)


def test_nonfinite_values_pass_where_the_oracle_has_them() -> None:
    oracle = torch.tensor([math.nan, math.inf, -math.inf, 1.0], dtype=torch.float64)
    assert compare(oracle.float(), oracle, ALLCLOSE).passed
    assert not compare(torch.tensor([math.nan, -math.inf, -math.inf, 1.0]), oracle, ALLCLOSE).passed


def test_exact_means_equal_values() -> None:
    oracle = torch.tensor([0.0, 1.5, math.inf])
    assert compare(torch.tensor([-0.0, 1.5, math.inf]), oracle, EXACT).passed
    assert compare(torch.tensor([0.0, 1.5000001, math.inf]), oracle, EXACT).wrong == 1


def test_several_outputs_share_one_verdict() -> None:
    oracle = (torch.zeros(2, dtype=torch.float64), torch.zeros(3, dtype=torch.float64))
    result = compare_all([torch.zeros(2), torch.tensor([0.0, 0.0, 1.0])], oracle, ALLCLOSE)
    assert (result.elements, result.wrong, result.worst_index) == (5, 1, (2,))


@pytest.mark.parametrize("output", [0.0, 1.0])
def test_zeros_and_means_are_no_answers_to_small_values(output: float) -> None:
    oracle = torch.rand(100, dtype=torch.float64) / 100
    assert not compare(
        torch.full((100,), output), oracle, Tolerance(rule="allclose", rtol=1e-4, atol=2e-6, why="as in sparsemax")
    ).passed
