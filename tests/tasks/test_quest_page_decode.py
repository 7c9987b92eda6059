"""Each hidden distribution of the paged decoding step has the property for which it exists, on the small dims too."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.tasks.loading import TASKS

SEEDS = range(5)
LOADED = next(loaded for loaded in TASKS if loaded.task.id == "l4-20")
DISTRIBUTIONS = [item.name for item in LOADED.task.specification.distributions]


def draw(distribution: str, seed: int) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Return queries [batch, heads, 1, size] of the first layer and its cache."""
    inputs = LOADED.generate(distribution, seed)
    layer = LOADED.build_model(seed).layers[0]
    with torch.no_grad():
        q = layer.attention.query(layer.attention_norm(inputs["x"]))
    q = LOADED.reference.rotate(q.unflatten(-1, (LOADED.dims["H"], -1)).transpose(1, 2), LOADED.dims["T"])
    return q.double(), {name: value[0].double() for name, value in inputs.items() if name != "x"}


def weigh_pages(distribution: str, seed: int) -> torch.Tensor:
    """Return how much of the attention over the whole cache each page would get."""
    q, cache = draw(distribution, seed)
    scores = (q @ cache["k"].mT).squeeze(2) / q.shape[-1] ** 0.5
    return scores.softmax(dim=-1).unflatten(-1, (-1, LOADED.dims["PG"])).sum(dim=-1)


def bound_pages(distribution: str, seed: int) -> torch.Tensor:
    q, cache = draw(distribution, seed)
    return torch.maximum(q * cache["kmin"], q * cache["kmax"]).sum(dim=-1)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_bounds_are_those_of_the_keys(distribution: str, seed: int) -> None:
    _, cache = draw(distribution, seed)
    keys = cache["k"].unflatten(2, (-1, LOADED.dims["PG"]))
    assert torch.equal(keys.amin(dim=3), cache["kmin"])
    assert torch.equal(keys.amax(dim=3), cache["kmax"])


def average(distribution: str, measure: Callable[[torch.Tensor], torch.Tensor]) -> float:
    """Return the mean over seeds, sequences and heads of a figure of the pages' weights."""
    return sum(float(measure(weigh_pages(distribution, seed)).mean()) for seed in SEEDS) / len(SEEDS)


def test_needle_carries_more_than_any_page_elsewhere() -> None:
    assert average("needle", lambda pages: pages.amax(dim=-1)) > 1.3 * average(
        "mirrored", lambda pages: pages.amax(dim=-1)
    )


def test_last_page_matters_though_its_bound_is_small() -> None:
    assert average("recent", lambda pages: pages[..., -1]) > 1.5 * average("mirrored", lambda pages: pages[..., -1])
    bounds = [bound_pages("recent", seed) for seed in SEEDS]
    rank = torch.stack([(bound > bound[..., -1:]).sum(dim=-1) for bound in bounds])
    assert (rank >= LOADED.dims["KP"]).double().mean() > 0.5


@pytest.mark.parametrize("seed", SEEDS)
def test_loose_pages_outrank_all_pairs(seed: int) -> None:
    bounds = bound_pages("loose-bounds", seed)[..., :-1].sort(dim=-1, descending=True).values
    others = LOADED.dims["KP"] - 1
    assert (bounds[..., others - 1] > bounds[..., others]).all()
    kept = bound_pages("loose-bounds", seed)[..., :-1].topk(others, dim=-1).indices
    assert (weigh_pages("loose-bounds", seed).gather(-1, kept).sum(dim=-1) < 0.999).any()


@pytest.mark.parametrize("seed", SEEDS)
def test_repeated_pages_have_equal_bounds(seed: int) -> None:
    largest = bound_pages("repeated-pages", seed)[..., :-1].sort(dim=-1).values
    repeated = (largest.diff(dim=-1) == 0).sum(dim=-1)
    assert (repeated >= 2 * ((LOADED.dims["KP"] - 1) // 4)).all()
