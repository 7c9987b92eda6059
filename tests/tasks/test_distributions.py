"""Each hidden distribution has the property for which it exists, on the small dims too."""

from __future__ import annotations

import math

import pytest
import torch

from tests.tasks.loading import TASKS, LoadedTask

SEEDS = range(5)


def find(name: str) -> LoadedTask:
    return next(loaded for loaded in TASKS if loaded.task.id == name)


def count_support(distribution: str, seed: int) -> torch.Tensor:
    loaded = find("l1-09")
    oracle = loaded.compute_oracle(loaded.generate(distribution, seed), loaded.build_model(seed))
    assert torch.allclose(oracle.sum(dim=-1), torch.ones(len(oracle), dtype=torch.float64))
    return (oracle > 0).sum(dim=-1)


def compute_scores(distribution: str, seed: int) -> torch.Tensor:
    x = find("l2-01").generate(distribution, seed)["x"].double()
    return x @ x.mT / math.sqrt(x.shape[-1])


@pytest.mark.parametrize("seed", SEEDS)
def test_tight_rows_have_a_large_support(seed: int) -> None:
    assert (count_support("uniform-tight", seed) > 128).all()
    assert (count_support("uniform-tight", seed) < 256).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_other_rows_have_a_small_support(seed: int) -> None:
    assert (count_support("gauss", seed) <= 16).all()
    assert count_support("log-magnitude", seed).double().mean() < 2


@pytest.mark.parametrize("seed", SEEDS)
def test_offset_needs_the_maximum_subtracted(seed: int) -> None:
    loaded = find("l1-09")
    z = loaded.generate("offset", seed)["z"]
    ordered = z.sort(dim=-1, descending=True).values
    excess = ordered.cumsum(dim=-1) - 1.0
    support = (torch.arange(1, z.shape[-1] + 1) * ordered > excess).sum(dim=-1, keepdim=True)
    naive = (z - excess.gather(-1, support - 1) / support).clamp(min=0.0)
    assert loaded.exceeds(naive, loaded.compute_oracle({"z": z}, loaded.build_model(seed)))


@pytest.mark.parametrize("seed", SEEDS)
def test_negative_features_expose_an_accumulator_at_zero(seed: int) -> None:
    loaded = find("l1-01")
    inputs = loaded.generate("negative-only", seed)
    oracle = loaded.compute_oracle(inputs, loaded.build_model(seed))
    filled = inputs["rowptr"].diff() > 0
    assert (oracle[filled] < 0).all()
    assert (oracle[~filled] == 0).all()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("distribution", "exposed"), [("gauss", False), ("broad", True), ("scaled-direction", True), ("clustered", True)]
)
def test_hidden_attention_exposes_the_closed_form(distribution: str, exposed: object, seed: int) -> None:
    loaded = find("l2-01")
    inputs, model = loaded.generate(distribution, seed), loaded.build_model(seed)
    energy = torch.nn.functional.softplus(inputs["x"].double()) + model.state_dict()["bias"]
    assert loaded.exceeds(energy.neg().softmax(dim=-1), loaded.compute_oracle(inputs, model)) is exposed


@pytest.mark.parametrize("seed", SEEDS)
def test_row_maximum_exceeds_the_diagonal_by_more_than_exp_can_bear(seed: int) -> None:
    scores = compute_scores("scaled-direction", seed)
    gap = scores.amax(dim=-1) - scores.diagonal(dim1=1, dim2=2)
    assert gap.max() > math.log(torch.finfo(torch.float32).max)


@pytest.mark.parametrize("seed", SEEDS)
def test_outliers_overflow_a_bare_exponential(seed: int) -> None:
    assert compute_scores("large-norm-outliers", seed).max() > math.log(torch.finfo(torch.float32).max)


@pytest.mark.parametrize("seed", SEEDS)
def test_clusters_share_the_weight(seed: int) -> None:
    scores = compute_scores("clustered", seed)
    rivals = (scores > scores.amax(dim=-1, keepdim=True) - 2.0).sum(dim=-1)
    assert rivals.double().mean() > 2
