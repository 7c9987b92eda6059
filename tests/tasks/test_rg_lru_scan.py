"""The hidden distributions of l1-12 have the property for which they exist."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from tests.tasks.loading import TASKS

LOADED = next(loaded for loaded in TASKS if loaded.task.id == "l1-12")


def compute_decay(distribution: str) -> torch.Tensor:
    inputs = LOADED.generate(distribution, 1)
    return torch.exp(-8.0 * functional.softplus(inputs["rate"]) * torch.sigmoid(inputs["gate"]))


@pytest.mark.parametrize(("distribution", "exposed"), [("gauss", False), ("slow-decay", True)])
def test_slow_decay_exposes_the_plain_factor(distribution: str, exposed: object) -> None:
    inputs, decay = LOADED.generate(distribution, 1), compute_decay(distribution)
    x, reset = inputs["x"], inputs["reset"].unsqueeze(-1)
    taken = torch.where(reset, x, torch.sqrt(1.0 - decay * decay) * x).double()
    h = taken.clone()
    for step in range(1, h.shape[1]):
        h[:, step] += decay.masked_fill(reset, 0.0)[:, step] * h[:, step - 1]
    assert LOADED.exceeds(h, LOADED.compute_oracle(inputs, LOADED.build_model(1))) is exposed


def test_fast_decay_underflows_in_a_third_of_all_places() -> None:
    share = (compute_decay("fast-decay") == 0).float().mean()
    assert 0.2 < share < 0.6


@pytest.mark.parametrize("seed", range(5))
def test_every_visible_sequence_has_a_reset(seed: int) -> None:
    assert LOADED.generate("gauss", seed)["reset"][:, 1:].any(dim=1).all()


def test_resets_are_none_or_every_third() -> None:
    assert not LOADED.generate("no-reset", 1)["reset"].any()
    reset = LOADED.generate("dense-reset", 1)["reset"]
    assert (reset[:, :-2].int() + reset[:, 1:-1].int() + reset[:, 2:].int() == 1).all()
