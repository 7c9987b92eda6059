"""What the hidden distributions of the lattice Boltzmann steps are for."""

from __future__ import annotations

import pytest
import torch

from tests.tasks.loading import TASKS

LOADED = next(loaded for loaded in TASKS if loaded.task.id == "l2-19")
DISTRIBUTIONS = [item.name for item in LOADED.task.specification.distributions]
SEEDS = range(5)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_populations_have_another_density_than_one(seed: int) -> None:
    density = LOADED.generate("random-positive", seed)["f"].sum(dim=0)
    assert (density - 1.0).abs().max() > 0.1


@pytest.mark.parametrize("seed", SEEDS)
def test_porous_grids_hold_many_solid_cells(seed: int) -> None:
    share = LOADED.generate("porous", seed)["solid"].double().mean()
    assert 0.2 < share < 0.4


@pytest.mark.parametrize("seed", SEEDS)
def test_shear_is_hardly_damped(seed: int) -> None:
    inputs = LOADED.generate("shear", seed)
    momentum = (inputs["f"] * torch.tensor([0, 1, 0, -1, 0, 1, -1, -1, 1])[:, None, None]).sum(dim=0)
    middle = LOADED.dims["Y"] // 2
    assert 0.5 < float(inputs["tau"]) < 0.52
    assert momentum[:middle].min() > 0.09
    assert momentum[middle:].max() < -0.09


@pytest.mark.parametrize("seed", SEEDS)
def test_one_cell_is_dense(seed: int) -> None:
    density = LOADED.generate("impulse", seed)["f"].sum(dim=0)
    assert int((density > 5.0).sum()) == 1


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("seed", SEEDS)
def test_mass_is_kept_and_the_density_stays_positive(distribution: str, seed: int) -> None:
    inputs = LOADED.generate(distribution, seed)
    density = LOADED.compute_oracle(inputs, LOADED.build_model(seed)).sum(dim=0)
    assert torch.isclose(density.sum(), inputs["f"].double().sum(), rtol=1e-12)
    assert density.min() > 0.3
