"""DGCNN: each hidden distribution has the property for which it exists."""

from __future__ import annotations

import pytest
import torch

from tests.tasks.loading import TASKS, LoadedTask

SEEDS = range(3)


@pytest.fixture
def loaded() -> LoadedTask:
    return next(item for item in TASKS if item.task.id == "l3-07")


def measure_distances(loaded: LoadedTask, distribution: str, seed: int) -> torch.Tensor:
    points = loaded.generate(distribution, seed)["x"].double().mT
    return torch.cdist(points, points)


def list_neighbours(points: torch.Tensor, count: int) -> torch.Tensor:
    nearest = torch.cdist(points.double(), points.double()).topk(count, dim=-1, largest=False).indices
    return torch.zeros(nearest.shape[:-1] + nearest.shape[-2:-1], dtype=torch.bool).scatter(-1, nearest, value=True)


@pytest.mark.parametrize("seed", SEEDS)
def test_neighbours_of_features_are_not_those_of_points(loaded: LoadedTask, seed: int) -> None:
    points = loaded.generate("normal-cloud", seed)["x"].mT.contiguous()
    first = loaded.build_model(seed).edges[0](points)
    graphs = [list_neighbours(rows, loaded.dims["K"]) for rows in (points, first)]
    assert (graphs[0] != graphs[1]).any(dim=-1).double().mean() > 0.5


@pytest.mark.parametrize("seed", SEEDS)
def test_clusters_lie_apart(loaded: LoadedTask, seed: int) -> None:
    distances = measure_distances(loaded, "two-clusters", seed)
    near = distances.topk(loaded.dims["K"], largest=False).values[..., -1]
    assert distances.amax(dim=(1, 2)).min() > 3.0
    assert near.median() < 0.25 * distances.amax()


@pytest.mark.parametrize("seed", SEEDS)
def test_axes_differ_thirtyfold(loaded: LoadedTask, seed: int) -> None:
    spread = loaded.generate("anisotropic", seed)["x"].std(dim=-1)
    assert (spread.amax(dim=-1) / spread.amin(dim=-1) > 15.0).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_points_of_a_grid_have_nearly_equal_distances(loaded: LoadedTask, seed: int) -> None:
    nearest = measure_distances(loaded, "jittered-grid", seed).topk(4, largest=False).values[..., 1:]
    even = (nearest[..., 2] / nearest[..., 0] < 1.3).double().mean()
    assert even > 0.5
    assert (nearest[..., 0] > 0).all()
