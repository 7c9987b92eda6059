"""The hidden distributions of l1-14 have the property for which they exist."""

from __future__ import annotations

import math

import pytest
import torch

from tests.tasks.loading import TASKS

LOADED = next(loaded for loaded in TASKS if loaded.task.id == "l1-14")


def align_hard(cost: torch.Tensor, band: float = math.inf) -> torch.Tensor:
    _, rows, columns = cost.shape
    table = torch.full((len(cost), rows + 1, columns + 1), math.inf, dtype=torch.float64)
    table[:, 0, 0] = 0.0
    for i in range(rows):
        for j in range(columns):
            if abs(i / rows - j / columns) * columns <= band:
                before = torch.stack([table[:, i, j], table[:, i, j + 1], table[:, i + 1, j]])
                table[:, i + 1, j + 1] = cost[:, i, j] + before.amin(dim=0)
    return table[:, -1, -1]


def compute_values(distribution: str) -> tuple[torch.Tensor, torch.Tensor]:
    inputs = LOADED.generate(distribution, 1)
    return inputs["cost"], LOADED.compute_oracle(inputs, LOADED.build_model(1))


def test_constant_cost_counts_every_path() -> None:
    cost, value = compute_values("constant")
    rows, columns = cost.shape[1:]
    constants = cost[:, 0, 0].double()
    # Paths with d diagonal steps visit rows + columns - 1 - d entries.
    terms = [
        math.log(math.comb(rows - 1, d) * math.comb(rows + columns - 2 - d, rows - 1))
        - (rows + columns - 1 - d) * constants / 0.1
        for d in range(min(rows, columns))
    ]
    assert torch.allclose(value, -0.1 * torch.stack(terms).logsumexp(dim=0))
    assert not LOADED.exceeds(value, value)
    assert (align_hard(cost) - value > 0.1).all()


def test_heavy_cost_underflows() -> None:
    _, value = compute_values("heavy")
    assert (value / 0.1 > -math.log(torch.finfo(torch.float32).tiny)).any()


def test_best_path_leaves_the_band() -> None:
    for distribution in ("uniform", "heavy"):
        cost, _ = compute_values(distribution)
        assert (align_hard(cost, band=2.0) > align_hard(cost) + 0.01).any()


def test_ridge_is_a_hard_path() -> None:
    cost, value = compute_values("ridge")
    ridge = torch.where(cost < 1.0, cost, math.inf)
    assert torch.allclose(align_hard(ridge), align_hard(cost))
    assert value == pytest.approx(align_hard(cost), abs=1.0)
