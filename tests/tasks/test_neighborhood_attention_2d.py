"""What the hidden distributions of neighbourhood attention are for."""

from __future__ import annotations

import math

import pytest
import torch

from tests.tasks.loading import TASKS

LOADED = next(loaded for loaded in TASKS if loaded.task.id == "l2-07")
SEEDS = range(5)


def compute_weights(distribution: str, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return scores and weights, B x H x pixels x 49, of the reference."""
    inputs, model = LOADED.generate(distribution, seed), LOADED.build_model(seed)
    rows, columns = (LOADED.reference.list_neighbours(LOADED.dims[name], torch.device("cpu")) for name in ("Y", "X"))
    neighbours = (rows[:, None, :, None] * LOADED.dims["X"] + columns[None, :, None, :]).flatten(2).flatten(0, 1)
    keys = inputs["k"].flatten(2, 3)[:, :, neighbours]
    scores = torch.einsum("bhpd,bhpnd->bhpn", inputs["q"].flatten(2, 3), keys) / math.sqrt(LOADED.dims["d"])
    down = (rows - torch.arange(len(rows)).unsqueeze(1) + 6)[:, None, :, None]
    right = (columns - torch.arange(len(columns)).unsqueeze(1) + 6)[None, :, None, :]
    scores = scores + model.state_dict()["bias"][:, down, right].flatten(3).flatten(1, 2)
    return scores, scores.softmax(dim=-1)


@pytest.mark.parametrize("seed", SEEDS)
def test_peaked_weights_go_to_one_key(seed: int) -> None:
    assert compute_weights("peaked", seed)[1].amax(dim=-1).median() > 0.9
    assert compute_weights("gauss", seed)[1].amax(dim=-1).median() < 0.5


@pytest.mark.parametrize("seed", SEEDS)
def test_offset_overflows_a_bare_exponential(seed: int) -> None:
    assert compute_weights("offset-keys", seed)[0].max() > math.log(torch.finfo(torch.float32).max)


@pytest.mark.parametrize("seed", SEEDS)
def test_constant_values_come_back(seed: int) -> None:
    inputs = LOADED.generate("constant-values", seed)
    assert not LOADED.exceeds(inputs["v"], LOADED.compute_oracle(inputs, LOADED.build_model(seed)))


@pytest.mark.parametrize("seed", SEEDS)
def test_corner_looks_beyond_a_window_cut_off(seed: int) -> None:
    weights = compute_weights("far-border-keys", seed)[1][:, :, 0].unflatten(-1, (7, 7))
    assert (1.0 - weights[:, :, :4, :4].sum(dim=(-1, -2))).mean() > 0.5
