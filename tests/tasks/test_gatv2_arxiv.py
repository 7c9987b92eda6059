"""GATv2 node classifier: each hidden distribution has the property for which it exists."""

from __future__ import annotations

import math

import pytest
import torch

from tests.tasks.loading import TASKS, LoadedTask

SEEDS = range(3)


@pytest.fixture
def loaded() -> LoadedTask:
    return next(item for item in TASKS if item.task.id == "l3-01")


def compute_first_logits(loaded: LoadedTask, distribution: str, seed: int) -> torch.Tensor:
    inputs = loaded.generate(distribution, seed)
    layer = loaded.build_model(seed).attention1
    sources, targets = (
        side(inputs["x"]).unflatten(1, layer.att.shape)[inputs[place]]
        for side, place in ((layer.source, "col"), (layer.target, "row"))
    )
    return (layer.att * torch.nn.functional.leaky_relu(sources + targets, 0.2)).sum(dim=-1)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("distribution", ["gauss-power-law", "uniform-random", "large-features", "heavy-hub"])
def test_every_node_is_a_source_of_its_own(loaded: LoadedTask, distribution: str, seed: int) -> None:
    inputs = loaded.generate(distribution, seed)
    own = inputs["row"][inputs["row"] == inputs["col"]]
    assert len(own.unique()) == loaded.dims["N"]
    assert torch.equal(torch.bincount(inputs["row"]), inputs["rowptr"].diff())


@pytest.mark.parametrize("seed", SEEDS)
def test_logits_of_large_features_overflow_a_bare_exponential(loaded: LoadedTask, seed: int) -> None:
    logits = compute_first_logits(loaded, "large-features", seed)
    assert logits.max() > math.log(torch.finfo(torch.float32).max)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_hub_owns_a_tenth_of_the_edges(loaded: LoadedTask, seed: int) -> None:
    degrees = loaded.generate("heavy-hub", seed)["rowptr"].diff()
    assert degrees.max() >= (loaded.dims["E"] - loaded.dims["N"]) // 10
    assert (degrees <= 3).double().mean() >= 0.4


@pytest.mark.parametrize("seed", SEEDS)
def test_words_are_few(loaded: LoadedTask, seed: int) -> None:
    x = loaded.generate("bag-of-words", seed)["x"]
    assert 0.0 < (x != 0).double().mean() < 0.1
