"""What the hidden distributions of bidirectional WKV attention are for."""

from __future__ import annotations

import math

import pytest
import torch

from tests.tasks.loading import TASKS

LOADED = next(loaded for loaded in TASKS if loaded.task.id == "l2-08")
LARGEST = math.log(torch.finfo(torch.float32).max)
SEEDS = range(5)


@pytest.mark.parametrize("seed", SEEDS)
def test_offset_overflows_a_bare_exponential(seed: int) -> None:
    assert LOADED.generate("offset-keys", seed)["k"].min() > LARGEST


@pytest.mark.parametrize("seed", SEEDS)
def test_largest_key_changes_along_the_sequence(seed: int) -> None:
    k = LOADED.generate("large-keys", seed)["k"]
    running = k.cummax(dim=1).values
    assert (running.diff(dim=1) > 0).double().sum(dim=1).mean() > 2
    assert (k.amax(dim=1) - k.amin(dim=1)).min() > 15


@pytest.mark.parametrize("seed", SEEDS)
def test_only_the_ends_of_the_sequence_count(seed: int) -> None:
    k = LOADED.generate("far-keys", seed)["k"]
    ends = torch.cat([k[:, :2], k[:, -2:]], dim=1)
    assert ends.amax(dim=1).min() > k[:, 2:-2].amax() + 5.0


@pytest.mark.parametrize("seed", SEEDS)
def test_one_token_outweighs_the_others(seed: int) -> None:
    k = LOADED.generate("outlier-token", seed)["k"]
    assert ((k == 60.0).all(dim=-1).sum(dim=-1) == 1).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_channels_decay_slowly_and_fast(seed: int) -> None:
    torch.manual_seed(seed)
    decay = LOADED.reference.Model(192).decay
    assert (decay < 0.1).double().mean() > 0.2
    assert (decay > 50.0).double().mean() > 0.05
