"""Each hidden distribution of OLMoE has the property for which it exists, on the small dims too."""

from __future__ import annotations

import pytest
import torch

from tests.tasks.loading import TASKS

SEEDS = range(3)
LOADED = next(loaded for loaded in TASKS if loaded.task.id == "l4-01")


def count_tokens(distribution: str, seed: int) -> torch.Tensor:
    """Return how many tokens each expert of the first layer gets, the most first."""
    layer = LOADED.build_model(seed).layers[0]
    x = LOADED.generate(distribution, seed)["x"]
    with torch.no_grad():
        h = x + layer.attention(layer.attention_norm(x))
        _, experts = layer.mixture.route(layer.mixture_norm(h).flatten(0, 1))
    return torch.bincount(experts.flatten(), minlength=LOADED.dims["E"]).sort(descending=True).values


@pytest.mark.parametrize("seed", SEEDS)
def test_alike_tokens_crowd_the_same_experts(seed: int) -> None:
    tokens = LOADED.dims["B"] * LOADED.dims["S"]
    assert count_tokens("one-expert-set", seed)[0] == tokens
    assert count_tokens("gauss", seed)[0] < tokens * 7 // 8


@pytest.mark.parametrize("seed", SEEDS)
def test_two_clusters_leave_experts_idle(seed: int) -> None:
    taken, least = count_tokens("two-clusters", seed), LOADED.dims["E"] - 2 * LOADED.dims["K"]
    assert taken[-least:].sum() < 0.25 * count_tokens("gauss", seed)[-least:].sum() + 1


@pytest.mark.parametrize("seed", SEEDS)
def test_a_quarter_of_the_tokens_are_one_vector(seed: int) -> None:
    x = LOADED.generate("padding-like", seed)["x"].flatten(0, 1)
    assert x.unique(dim=0, return_counts=True)[1].max() == len(x) // 4


@pytest.mark.parametrize("seed", SEEDS)
def test_eight_channels_hold_nearly_all_energy(seed: int) -> None:
    x = LOADED.generate("outlier-channels", seed)["x"].flatten(0, 1).double()
    energy = x.square().sum(dim=0).sort(descending=True).values
    assert energy[:8].sum() > 0.9 * energy.sum()
