"""Each hidden distribution of Gemma-2-9B has the property for which it exists, on the small dims too."""

from __future__ import annotations

import pytest
import torch

from tests.tasks.loading import TASKS

SEEDS = range(3)
LOADED = next(loaded for loaded in TASKS if loaded.task.id == "l4-10")


def compute_logits(distribution: str, seed: int) -> torch.Tensor:
    """Return the logits of the first layer before the cap."""
    layer = LOADED.build_model(seed).layers[0]
    attention = layer.attention
    normed = layer.input_norm(LOADED.generate(distribution, seed)["x"]).float()
    q, k = (
        attention.split(torch.nn.functional.linear(normed, projection.weight.float()))
        for projection in (attention.query, attention.key)
    )
    return q @ k.repeat_interleave(2, dim=1).mT * attention.size**-0.5


@pytest.mark.parametrize("seed", SEEDS)
def test_cap_bends_saturating_logits_alone(seed: int) -> None:
    for distribution, bent in (("gauss", False), ("saturating", True)):
        logits = compute_logits(distribution, seed)
        assert bool(((logits - 50.0 * torch.tanh(logits / 50.0)).abs() > 10.0).any()) is bent


@pytest.mark.parametrize("seed", SEEDS)
def test_sink_draws_far_more_than_its_share(seed: int) -> None:
    weights = compute_logits("sink", seed).softmax(dim=-1)
    assert weights[..., 0].mean() > 5.0 * weights[..., 1:].mean()


@pytest.mark.parametrize("seed", SEEDS)
def test_tokens_are_alike(seed: int) -> None:
    x = LOADED.generate("alike", seed)["x"][0].float()
    assert (torch.nn.functional.cosine_similarity(x, x[:1], dim=-1) > 0.9).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_eight_channels_hold_nearly_all_energy(seed: int) -> None:
    x = LOADED.generate("outlier-channels", seed)["x"][0].double()
    energy = x.square().sum(dim=0).sort(descending=True).values
    assert energy[:8].sum() > 0.9 * energy.sum()
