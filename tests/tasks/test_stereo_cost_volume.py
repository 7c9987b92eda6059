"""Each hidden distribution of l1-24 has the property for which it exists."""

from __future__ import annotations

import pytest
import torch

from tests.tasks.loading import TASKS

LOADED = next(loaded for loaded in TASKS if loaded.task.id == "l1-24")


def correlate(inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    (volume,) = LOADED.hidden.compute_oracle(inputs, {}, LOADED.dims)
    return torch.as_tensor(volume)


def test_shifted_rows_peak_at_one_disparity() -> None:
    inputs = LOADED.generate("shifted-rows", 1)
    energy = (inputs["left"].double() ** 2).unflatten(1, (LOADED.dims["G"], -1)).mean(dim=2)
    volume = correlate(inputs)
    inner = slice(LOADED.dims["D"], None)
    equal = (volume[..., inner] - energy[..., inner].unsqueeze(2)).abs().amax(dim=-1) < 1e-12
    assert (equal.sum(dim=2) == 1).all()


def test_half_of_the_values_are_zero() -> None:
    inputs = LOADED.generate("half-zeros", 2)
    assert all(0.35 < (value == 0).double().mean() < 0.65 for value in inputs.values())
    assert all((value >= 0).all() for value in inputs.values())


def test_log_magnitudes_expose_products_of_half_precision() -> None:
    inputs = LOADED.generate("log-magnitude", 3)
    narrowed = {name: value.half().float() for name, value in inputs.items()}
    assert LOADED.exceeds(correlate(narrowed), correlate(inputs))


def test_equal_planes_show_nothing_but_the_border() -> None:
    volume = correlate(LOADED.generate("equal-planes", 4))
    disparity = torch.arange(LOADED.dims["D"]).view(-1, 1, 1)
    border = (torch.arange(LOADED.dims["W"]) < disparity).expand_as(volume)
    assert (volume[border] == 0).all()
    assert (volume[~border] != 0).all()


@pytest.mark.parametrize("seed", range(3))
def test_every_hidden_distribution_exposes_a_wrapped_border(seed: int) -> None:
    for distribution in ("shifted-rows", "half-zeros", "log-magnitude", "equal-planes"):
        inputs = LOADED.generate(distribution, seed)
        right = inputs["right"]
        wrapped = torch.cat([right[..., -LOADED.dims["D"] :], right], dim=-1)
        left = torch.cat([inputs["left"][..., -LOADED.dims["D"] :], inputs["left"]], dim=-1)
        dims = {**LOADED.dims, "W": wrapped.shape[-1]}
        (volume,) = LOADED.hidden.compute_oracle({"left": left, "right": wrapped}, {}, dims)
        assert LOADED.exceeds(volume[..., LOADED.dims["D"] :], correlate(inputs))
