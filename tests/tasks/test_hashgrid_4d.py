"""Each hidden distribution of l1-28 has the property for which it exists, and products with resolutions are exact."""

from __future__ import annotations

import pytest
import torch

from tests.tasks.loading import TASKS

LOADED = next(loaded for loaded in TASKS if loaded.task.id == "l1-28")
RESOLUTIONS = [int(LOADED.reference.COARSEST * LOADED.reference.GROWTH**level) for level in range(12)]


def draw(distribution: str) -> torch.Tensor:
    return LOADED.generate(distribution, 1)["points"]


@pytest.mark.parametrize("distribution", ["uniform", "camera-rays", "sixteenths", "far-corner", "tight-clusters"])
def test_positions_in_the_grid_are_exact(distribution: str) -> None:
    points = draw(distribution)
    assert ((points >= 0) & (points < 1)).all()
    for resolution in RESOLUTIONS:
        assert torch.equal((points * resolution).double(), points.double() * resolution)


def test_points_of_a_ray_lie_on_a_line_at_one_time() -> None:
    points = draw("camera-rays").double()
    assert (points[:, 3] == points[0, 3]).all()
    ray = points[: LOADED.hidden.POINTS_OF_A_RAY, :3]
    middle = ray.shape[0] // 2
    chord = ray[0] + (ray[-1] - ray[0]) * middle / (len(ray) - 1)
    assert (ray[middle] - chord).abs().max() < 3 * LOADED.reference.STEP
    assert (ray[-1] - ray[0]).norm() > 0.05


def test_sixteenths_are_corners_of_the_first_level() -> None:
    position = draw("sixteenths") * RESOLUTIONS[0]
    assert torch.equal(position, position.floor())


def test_far_corner_is_in_the_last_cell_of_every_level() -> None:
    points = draw("far-corner")
    assert all(((points * resolution).floor() == resolution - 1).all() for resolution in RESOLUTIONS)


def test_most_points_of_tight_clusters_share_their_cell() -> None:
    inputs = LOADED.hidden.generate("tight-clusters", {**LOADED.dims, "N": 2000}, torch.Generator().manual_seed(1))
    cells = (inputs["points"] * RESOLUTIONS[0]).floor()
    assert len(cells.unique(dim=0)) < 500


def test_some_entries_need_all_32_bits() -> None:
    cell = (draw("uniform") * RESOLUTIONS[-1]).long()
    assert (cell[:, 1] * LOADED.reference.PRIMES[1] > LOADED.reference.BITS_OF_HASH).any()
