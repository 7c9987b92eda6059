"""The hidden distributions of l1-17 have the property for which they exist."""

from __future__ import annotations

import pytest
import torch

from tests.tasks.loading import TASKS

LOADED = next(loaded for loaded in TASKS if loaded.task.id == "l1-17")


def compute_expanded(inputs: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    x, y = inputs.values()
    lengths = x.square().sum(dim=-1).unsqueeze(2) + y.square().sum(dim=-1).unsqueeze(1)
    distances = lengths - 2 * (x.unsqueeze(2) * y.unsqueeze(1)).sum(dim=-1)
    return distances.amin(dim=2), distances.amin(dim=1)


@pytest.mark.parametrize("distribution", ["far-offset", "clustered"])
def test_expanded_form_is_exposed_by_far(distribution: str) -> None:
    inputs = LOADED.generate(distribution, 1)
    oracles = LOADED.compute_oracles(inputs, LOADED.build_model(1))
    assert LOADED.exceeds(compute_expanded(inputs), oracles, share=100.0)


def test_surface_has_unit_length() -> None:
    for points in LOADED.generate("uniform-surface", 1).values():
        assert torch.allclose(points.norm(dim=-1), torch.ones(points.shape[:2]))


def test_half_of_the_second_cloud_is_in_the_first() -> None:
    _, to_first = LOADED.compute_oracles(LOADED.generate("subset", 1), LOADED.build_model(1))
    assert ((to_first == 0).sum(dim=-1) == to_first.shape[-1] // 2).all()


def test_clusters_are_tight() -> None:
    for minima in LOADED.compute_oracles(LOADED.generate("clustered", 1), LOADED.build_model(1)):
        assert minima.median() < 1e-5
