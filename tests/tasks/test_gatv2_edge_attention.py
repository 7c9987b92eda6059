"""What the hidden distributions of GATv2 attention are for."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional

from tests.tasks.loading import TASKS

LOADED = next(loaded for loaded in TASKS if loaded.task.id == "l2-02")
SEEDS = range(5)


@pytest.mark.parametrize("seed", SEEDS)
def test_large_logits_overflow_a_bare_exponential(seed: int) -> None:
    inputs, model = LOADED.generate("large-logits", seed), LOADED.build_model(seed)
    summed = inputs["xl"][inputs["col"]] + inputs["xr"][inputs["row"]]
    logits = (model.state_dict()["att"] * functional.leaky_relu(summed, 0.2)).sum(dim=-1)
    assert logits.max() > math.log(torch.finfo(torch.float32).max)


@pytest.mark.parametrize("seed", SEEDS)
def test_hub_owns_a_tenth_of_the_edges_that_are_no_self_loops(seed: int) -> None:
    degrees = LOADED.generate("heavy-hub", seed)["rowptr"].diff()
    assert (degrees == (LOADED.dims["E"] - LOADED.dims["N"]) // 10 + 1).any()
    assert int(degrees.min()) == 1


@pytest.mark.parametrize("seed", SEEDS)
def test_only_self_loops_give_the_features_back(seed: int) -> None:
    inputs, model = LOADED.generate("self-only", seed), LOADED.build_model(seed)
    expected = functional.elu(inputs["xl"].flatten(1).double() + model.state_dict()["bias"])
    assert not LOADED.exceeds(expected, LOADED.compute_oracle(inputs, model))


@pytest.mark.parametrize("distribution", [item.name for item in LOADED.task.specification.distributions])
def test_rows_name_the_owner_of_each_edge(distribution: str) -> None:
    inputs = LOADED.generate(distribution, 1)
    position = torch.arange(LOADED.dims["E"])
    assert (inputs["rowptr"][inputs["row"]] <= position).all()
    assert (position < inputs["rowptr"][inputs["row"] + 1]).all()
    assert (inputs["col"] == inputs["row"])[inputs["rowptr"][1:] - 1].all()
