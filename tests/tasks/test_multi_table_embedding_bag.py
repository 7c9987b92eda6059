"""Each distribution of l1-30 has the property for which it exists."""

from __future__ import annotations

import pytest
import torch

from tests.tasks.loading import TASKS

LOADED = next(loaded for loaded in TASKS if loaded.task.id == "l1-30")
DISTRIBUTIONS = ["zipf", "even-bags", "half-empty", "hot-row", "signed-log-magnitude"]
DIMS = {"F": 2, "B": 500, "V": 3000, "D": 4, "L": 2000}


def draw(distribution: str, dims: dict[str, int]) -> dict[str, torch.Tensor]:
    files = LOADED.reference if distribution == "zipf" else LOADED.hidden
    inputs: dict[str, torch.Tensor] = files.generate(distribution, dims, torch.Generator().manual_seed(1))
    return inputs


@pytest.mark.parametrize("dims", [DIMS, dict(LOADED.dims)], ids=["medium", "small"])
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_bags_cover_the_lookups_and_rows_exist(distribution: str, dims: dict[str, int]) -> None:
    inputs = draw(distribution, dims)
    offsets, index = inputs["offsets"], inputs["index"]
    assert (offsets[:, 0] == 0).all()
    assert (offsets[:, -1] == dims["L"]).all()
    assert (offsets.diff(dim=-1) >= 0).all()
    assert int(index.min()) >= 0
    assert int(index.max()) < dims["V"]


def test_zipf_indices_are_skewed_and_its_bags_ragged() -> None:
    inputs = draw("zipf", DIMS)
    counts = torch.bincount(inputs["index"][0], minlength=DIMS["V"])
    assert counts.max() > DIMS["L"] // 20
    assert int((counts > 0).sum()) > DIMS["V"] // 32
    assert inputs["offsets"].diff(dim=-1).amax() > 12


def test_zipf_indices_touch_the_rows_that_the_floor_counts() -> None:
    dims = {**LOADED.task.specification.dims.timed, "F": 1, "B": 8}
    touched = len(draw("zipf", dims)["index"].unique())
    assert touched > dims["V"] // 32


def test_even_bags_have_nearly_the_same_size() -> None:
    sizes = draw("even-bags", DIMS)["offsets"].diff(dim=-1)
    assert int(sizes.min()) >= 3
    assert int(sizes.max()) <= 5


def test_half_of_the_bags_are_empty() -> None:
    sizes = draw("half-empty", DIMS)["offsets"].diff(dim=-1)
    assert ((sizes == 0).sum(dim=-1) >= DIMS["B"] // 2).all()


def test_a_hot_row_has_every_lookup_and_a_bag_an_eighth_of_them() -> None:
    inputs = draw("hot-row", DIMS)
    assert (inputs["index"] == inputs["index"][:, :1]).all()
    assert (inputs["offsets"].diff(dim=-1).amax(dim=-1) >= DIMS["L"] // 8).all()


def test_weights_of_both_signs_span_decades() -> None:
    weight = draw("signed-log-magnitude", DIMS)["weight"]
    assert weight.abs().max() > 1e5 * weight.abs().min()
    assert 0.4 < (weight < 0).double().mean() < 0.6
