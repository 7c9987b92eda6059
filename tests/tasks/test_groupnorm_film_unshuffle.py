"""Each hidden distribution of l2-24 has the property for which it exists."""

from __future__ import annotations

import pytest
import torch

from tests.tasks.loading import TASKS

LOADED = next(loaded for loaded in TASKS if loaded.task.id == "l2-24")
GROUPS = LOADED.reference.GROUPS


def draw(distribution: str) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """Return inputs, and the values of every group in float64."""
    inputs = LOADED.generate(distribution, 1)
    return inputs, inputs["x"].double().view(LOADED.dims["B"], GROUPS, -1)


def test_raw_squares_cancel_around_a_large_mean() -> None:
    _, groups = draw("large-mean")
    single = groups.float()
    raw = single.square().mean(dim=-1) - single.mean(dim=-1).square()
    exact = groups.var(dim=-1, correction=0)
    assert (groups.mean(dim=-1).abs() - 300.0).abs().max() < 1.0
    assert ((raw - exact).abs() / exact).max() > 2e-3


def test_equal_groups_have_no_variance_in_fp32_either() -> None:
    _, groups = draw("equal-groups")
    single = groups.float()
    assert (single == single[..., :1]).all()
    assert torch.equal(single.mean(dim=-1), single[..., 0])


def test_few_pixels_make_the_statistics() -> None:
    _, groups = draw("log-magnitude")
    squares = groups.square().sort(dim=-1, descending=True).values
    assert (squares[..., :32].sum(dim=-1) > 0.9 * squares.sum(dim=-1)).all()


def test_cancelled_channels_give_zero_and_others_do_not() -> None:
    inputs, _ = draw("cancelled-channels")
    y = LOADED.hidden.compute_oracle(inputs, LOADED.build_model(1).state_dict(), LOADED.dims)[0]
    cancelled = (inputs["scale"] == -1.0) & (inputs["shift"] == 0.0)
    channels = y.view(*cancelled.shape, -1)
    assert 0.3 < cancelled.double().mean() < 0.7
    assert (channels[cancelled] == 0).all()
    assert (channels[~cancelled] != 0).any(dim=-1).all()


@pytest.mark.parametrize("distribution", ["large-mean", "log-magnitude", "cancelled-channels"])
def test_the_unshuffle_shows(distribution: str) -> None:
    inputs, _ = draw(distribution)
    y = LOADED.hidden.compute_oracle(inputs, LOADED.build_model(1).state_dict(), LOADED.dims)[0]
    unmoved = torch.nn.functional.pixel_shuffle(y, 2).view(y.shape)
    assert LOADED.exceeds(unmoved, y)
