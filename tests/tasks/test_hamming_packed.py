"""The hidden distributions of l1-19 have the property for which they exist."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.tasks.loading import TASKS

LOADED = next(loaded for loaded in TASKS if loaded.task.id == "l1-19")
BITS = 32 * LOADED.dims["W"]


def compute_distance(distribution: str) -> torch.Tensor:
    return LOADED.compute_oracle(LOADED.generate(distribution, 1), LOADED.build_model(1))


def count_set_bits(words: torch.Tensor) -> int:
    return int(np.unpackbits(words.numpy().view(np.uint8)).sum())


@pytest.mark.parametrize("distribution", ["random-bits", "sparse-bits"])
def test_oracle_counts_single_pairs(distribution: str) -> None:
    inputs, distance = LOADED.generate(distribution, 1), compute_distance(distribution)
    for i, j in ((0, 0), (3, 17), (19, 35)):
        assert distance[i, j] == count_set_bits(inputs["codes"][i] ^ inputs["queries"][j])


def test_sparse_bits_are_sparse() -> None:
    share = compute_distance("sparse-bits").mean() / BITS
    assert 0.005 < share < 0.03


def test_queries_are_near_some_code() -> None:
    nearest = compute_distance("near-duplicates").amin(dim=0)
    assert nearest.max() <= 3
    assert nearest.max() > 0


def test_rows_are_equal_or_complements() -> None:
    assert set(compute_distance("all-or-none").unique().tolist()) == {0.0, BITS}


def test_only_signs_differ() -> None:
    inputs = LOADED.generate("sign-bit", 1)
    different = inputs["codes"].unsqueeze(1) ^ inputs["queries"].unsqueeze(0)
    assert set(different.unique().tolist()) == {0, -(2**31)}
