"""Each hidden distribution of RecurrentGemma-2B has the property for which it exists, on the small dims too."""

from __future__ import annotations

import pytest
import torch

from tests.tasks.loading import TASKS

SEEDS = range(3)
LOADED = next(loaded for loaded in TASKS if loaded.task.id == "l4-24")


def draw(distribution: str, seed: int) -> torch.Tensor:
    return LOADED.generate(distribution, seed)["x"][0].double()


def compare_rows(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.cosine_similarity(left, right, dim=-1)


@pytest.mark.parametrize("seed", SEEDS)
def test_steady_tokens_are_alike(seed: int) -> None:
    x = draw("steady", seed)
    assert (compare_rows(x[1:], x[:-1]) > 0.9).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_alternating_tokens_turn_their_sign(seed: int) -> None:
    x = draw("alternating", seed)
    assert (compare_rows(x[1:], x[:-1]) < -0.9).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_first_half_is_remembered_far_into_the_second(seed: int) -> None:
    x = LOADED.generate("two-halves", seed)["x"]
    half = x.shape[1] // 2
    model = LOADED.build_model(seed)
    forgetful = {"x": torch.cat([torch.zeros_like(x[:, :half]), x[:, half:]], dim=1)}
    block, normed = model.layers[0].temporal, model.layers[0].temporal_norm
    with torch.no_grad():
        states = [block.recur(block.convolve(block.input(normed(part)))) for part in (x, forgetful["x"])]
    late = slice(half + 16, None)
    assert (states[0] - states[1])[:, late].float().norm() > 0.2 * states[0][:, late].float().norm()


@pytest.mark.parametrize("seed", SEEDS)
def test_eight_channels_hold_nearly_all_energy(seed: int) -> None:
    energy = draw("outlier-channels", seed).square().sum(dim=0).sort(descending=True).values
    assert energy[:8].sum() > 0.9 * energy.sum()
