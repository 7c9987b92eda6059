"""The hidden distributions of l1-21 have the property for which they exist."""

from __future__ import annotations

import pytest
import torch

from tests.tasks.loading import TASKS

LOADED = next(loaded for loaded in TASKS if loaded.task.id == "l1-21")
DISTRIBUTIONS = [item.name for item in LOADED.task.specification.distributions]


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_sums_are_exact_in_any_order(distribution: str) -> None:
    inputs = LOADED.generate(distribution, 1)
    f = inputs["f"]
    differences = (f.unsqueeze(1) - f.unsqueeze(2)).abs()
    assert torch.equal(differences.sum(dim=-1).double(), differences.double().sum(dim=-1))
    assert torch.equal(differences.sum(dim=-1), differences.flip(-1).cumsum(dim=-1)[..., -1])


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_picks_are_never_masked(distribution: str) -> None:
    inputs = LOADED.generate(distribution, 1)
    index, distance = LOADED.compute_oracles(inputs, LOADED.build_model(1))
    assert not inputs["mask"].gather(1, index).any()
    assert torch.equal(distance < 0, inputs["mask"])


def test_duplicates_tie_for_the_lowest_index() -> None:
    inputs = LOADED.generate("duplicates", 1)
    index, _ = LOADED.compute_oracles(inputs, LOADED.build_model(1))
    for f, picks in zip(inputs["f"], index[:, 1:], strict=True):
        same = (f.unsqueeze(0) == f[picks].unsqueeze(1)).all(dim=-1)
        assert (same.sum(dim=1) == 4).all()
        assert torch.equal(same.int().argmax(dim=1), picks)


def test_uniform_grid_has_equal_distances() -> None:
    _, distance = LOADED.compute_oracles(LOADED.generate("grid-uniform", 1), LOADED.build_model(1))
    assert distance.unique().numel() < distance.numel() / 2


def test_clusters_are_fewer_than_picks() -> None:
    _, distance = LOADED.compute_oracles(LOADED.generate("clusters", 1), LOADED.build_model(1))
    assert distance.max() < 8.0


def test_masked_points_are_extreme() -> None:
    inputs = LOADED.generate("mostly-masked", 1)
    assert 0.5 < inputs["mask"].float().mean() < 0.9
    assert inputs["f"][inputs["mask"]].abs().median() == 4096.0
