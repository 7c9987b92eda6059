"""Gated linear recurrence with input normalisation and resets (RG-LRU)."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn
from torch.nn import functional

from verifier.inputs import draw_gaussian, draw_integers, draw_uniform

RATE = 8.0
LEAST_DECAY = 0.9
LARGEST_DECAY = 0.999
ONE_RESET_IN = 512


class Model(nn.Module):
    """h[t] = a[t] h[t - 1] + sqrt(1 - a[t]^2) x[t] with a = exp(-8 softplus(rate) sigmoid(gate)).

    A reset forgets the state and takes x as it is: h[t] = x[t].
    """

    def forward(self, x: torch.Tensor, gate: torch.Tensor, rate: torch.Tensor, reset: torch.Tensor) -> torch.Tensor:
        logarithm = -RATE * functional.softplus(rate) * torch.sigmoid(gate)
        reset = reset.unsqueeze(-1)
        decay = torch.exp(logarithm).masked_fill(reset, 0.0)
        h = torch.where(reset, x, torch.sqrt(-torch.expm1(2.0 * logarithm)) * x)
        # After each round every state has taken in twice as many steps.
        span = 1
        while span < x.shape[1]:
            reached = decay[:, span:] * h[:, :-span] + h[:, span:]
            h = torch.cat([h[:, :span], reached], dim=1)
            decay = torch.cat([decay[:, :span], decay[:, span:] * decay[:, :-span]], dim=1)
            span *= 2
        return h


def get_init_inputs(dims: Mapping[str, int]) -> list[object]:
    """Return the arguments of the constructor: none."""
    return []


def draw_rate(channels: int, generator: torch.Generator) -> torch.Tensor:
    """Return rates with which exp(-8 softplus(rate)) is uniform from 0.9 to 0.999, float32 (channels,)."""
    decay = draw_uniform((channels,), LEAST_DECAY, LARGEST_DECAY, generator)
    # The inverse of softplus.
    return torch.log(torch.expm1(-torch.log(decay) / RATE))


def draw_reset(batch: int, steps: int, generator: torch.Generator) -> torch.Tensor:
    """Return resets at one step in 512 and at one more step of each sequence, bool (batch, steps)."""
    reset = draw_uniform((batch, steps), 0.0, 1.0, generator) < 1 / ONE_RESET_IN
    return reset.scatter(1, draw_integers(1, steps, batch, generator).unsqueeze(1), value=True)


def generate(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return seeded inputs. Raises ValueError for another distribution than gauss."""
    if distribution != "gauss":
        raise ValueError(f"unknown distribution {distribution!r}; known: gauss")
    shape = (dims["B"], dims["T"], dims["D"])
    x, gate = draw_gaussian(shape, generator), draw_gaussian(shape, generator)
    rate, reset = draw_rate(dims["D"], generator), draw_reset(dims["B"], dims["T"], generator)
    return {"x": x, "gate": gate, "rate": rate, "reset": reset}
