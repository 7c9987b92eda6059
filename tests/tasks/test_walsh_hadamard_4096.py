"""Each hidden distribution of l1-25 has the property for which it exists."""

from __future__ import annotations

import pytest
import torch

from tests.tasks.loading import TASKS

LOADED = next(loaded for loaded in TASKS if loaded.task.id == "l1-25")


def transform(distribution: str, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    inputs = LOADED.generate(distribution, seed)
    (y,) = LOADED.hidden.compute_oracle(inputs, {}, LOADED.dims)
    return inputs["x"].double(), y


@pytest.mark.parametrize("distribution", ["gauss", "log-magnitude", "one-hot"])
def test_the_transform_is_its_own_inverse(distribution: str) -> None:
    x, y = transform(distribution, 1)
    (again,) = LOADED.hidden.compute_oracle({"x": y}, {}, LOADED.dims)
    assert torch.allclose(again, x, rtol=1e-12, atol=1e-12 * float(x.abs().max()))


def test_one_hot_rows_give_rows_of_sylvesters_matrix() -> None:
    matrix = torch.ones(1, 1, dtype=torch.float64)
    while len(matrix) < LOADED.dims["D"]:
        matrix = torch.cat([torch.cat([matrix, matrix], 1), torch.cat([matrix, -matrix], 1)])
    x, y = transform("one-hot", 2)
    place = x.abs().argmax(dim=-1)
    assert (x.count_nonzero(dim=-1) == 1).all()
    expected = x.sum(dim=-1, keepdim=True) * matrix[place] / LOADED.dims["D"] ** 0.5
    assert torch.allclose(y, expected, rtol=1e-12, atol=0.0)


def test_equal_entries_leave_only_the_first_result() -> None:
    _, y = transform("equal-entries", 3)
    assert (y[:, 0] != 0).all()
    assert (y[:, 1:] == 0).all()


def test_walsh_rows_leave_a_single_result() -> None:
    x, y = transform("walsh-rows", 4)
    assert (y.count_nonzero(dim=-1) == 1).all()
    assert (x.abs() == x[:, :1].abs()).all()


def test_log_magnitudes_span_decades() -> None:
    x, _ = transform("log-magnitude", 5)
    assert x.abs().max() > 1e4 * x.abs().min()
