"""What the hidden distributions of matrix NMS are for."""

from __future__ import annotations

import pytest
import torch

from tests.tasks.loading import TASKS

LOADED = next(loaded for loaded in TASKS if loaded.task.id == "l2-20")
DISTRIBUTIONS = [item.name for item in LOADED.task.specification.distributions]
SEEDS = range(5)


def measure_sides(boxes: torch.Tensor) -> torch.Tensor:
    return boxes[..., 2:] - boxes[..., :2]


@pytest.mark.parametrize("seed", SEEDS)
def test_every_box_of_an_image_is_of_one_class(seed: int) -> None:
    cls = LOADED.generate("one-class", seed)["cls"]
    assert (cls == cls[:, :1]).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_every_box_stands_there_four_times(seed: int) -> None:
    inputs = LOADED.generate("duplicates", seed)
    for boxes, cls in zip(inputs["boxes"], inputs["cls"], strict=True):
        rows = torch.cat([boxes, cls.unsqueeze(-1)], dim=-1)
        assert (rows.unique(dim=0, return_counts=True)[1] == 4).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_some_boxes_have_no_area_and_some_are_one_point(seed: int) -> None:
    sides = measure_sides(LOADED.generate("degenerate", seed)["boxes"])
    assert (sides == 0.0).any(dim=-1).double().mean() > 0.3
    assert int((sides == 0.0).all(dim=-1).sum()) > 2
    assert (sides > 0.0).all(dim=-1).any()


@pytest.mark.parametrize("seed", SEEDS)
def test_scores_are_tied(seed: int) -> None:
    scores = LOADED.generate("tied-scores", seed)["scores"]
    assert all(len(row.unique()) <= 32 for row in scores)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_indices_order_the_scores(distribution: str) -> None:
    inputs = LOADED.generate(distribution, 1)
    _, index = LOADED.compute_oracles(inputs, LOADED.build_model(1))
    ordered = inputs["scores"].gather(1, index)
    later = ordered[:, :-1] > ordered[:, 1:]
    assert (later | ((ordered[:, :-1] == ordered[:, 1:]) & (index[:, :-1] < index[:, 1:]))).all()


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_some_boxes_decay_and_some_do_not(distribution: str) -> None:
    inputs = LOADED.generate(distribution, 1)
    scores, index = LOADED.compute_oracles(inputs, LOADED.build_model(1))
    kept = (inputs["scores"].double().gather(1, index) - 0.05).clamp(min=0.0)
    assert (scores <= kept).all()
    assert int((scores < kept - 1e-3).sum()) > 1
    assert torch.equal(scores[:, 0], kept[:, 0])
