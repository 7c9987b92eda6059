"""The coefficients of the tensor product, and what its hidden distributions are for."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from tests.tasks.loading import TASKS

LOADED = next(loaded for loaded in TASKS if loaded.task.id == "l2-12")
PATHS = LOADED.reference.PATHS
PLACES = LOADED.reference.PLACES
SEEDS = range(3)


def test_there_are_fifteen_paths_with_137_coefficients() -> None:
    couplings = [LOADED.reference.compute_coupling(*path) for path in PATHS]
    assert len(couplings) == 15
    assert sum(int((coupling != 0).sum()) for coupling in couplings) == 137
    assert int((LOADED.build_model(1).coupling != 0).sum()) == 137


@pytest.mark.parametrize("path", PATHS)
def test_coefficients_are_orthonormal(path: tuple[int, int, int]) -> None:
    coupling = LOADED.reference.compute_coupling(*path)
    overlap = torch.einsum("abm,abn->mn", coupling, coupling)
    assert torch.allclose(overlap, torch.eye(len(overlap), dtype=torch.float64), atol=1e-12)


@pytest.mark.parametrize("path", [path for path in PATHS if sum(path) % 2 == 0])
def test_harmonics_couple_to_a_harmonic(path: tuple[int, int, int]) -> None:
    direction = torch.randn(8, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    harmonics = LOADED.reference.compute_harmonics(functional.normalize(direction, dim=-1))
    first, second, third = (harmonics[:, PLACES[degree]] for degree in path)
    product = torch.einsum("mnk,em,en->ek", LOADED.reference.compute_coupling(*path), first, second)
    factor = (product * third).sum() / third.square().sum()
    assert factor.abs() > 0.1
    assert torch.allclose(product, factor * third, atol=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_harmonics_of_axes_are_mostly_zero(seed: int) -> None:
    y = LOADED.generate("axis-directions", seed)["y"]
    assert (y.abs() < 1e-6).double().mean() > 0.5
    assert torch.allclose(y.square().sum(dim=-1), torch.full((len(y),), 9.0), rtol=1e-5)


@pytest.mark.parametrize("seed", SEEDS)
def test_only_scalars_are_not_zero(seed: int) -> None:
    x = LOADED.generate("scalar-only", seed)["x"]
    assert (x[..., 1:] == 0.0).all()
    assert (x[..., 0] != 0.0).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_weights_and_gates_leave_the_usual_range(seed: int) -> None:
    size = LOADED.generate("log-magnitude", seed)["w"].abs().mean(dim=1)
    assert size.max() > 1e4 * size.min()
    assert LOADED.generate("extreme-gates", seed)["gate"].abs().max() > 60.0
