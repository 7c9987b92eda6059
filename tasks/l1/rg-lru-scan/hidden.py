"""Gated linear recurrence with input normalisation and resets: hidden inputs and the float64 oracle."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from verifier.inputs import draw_gaussian, draw_integers, draw_log_magnitude, draw_uniform

RATE = 8.0
SLOW_GATE = -6.0
LARGEST_RATE = 60.0
RESET_DISTANCE = 3


def _draw_rate(channels: int, generator: torch.Generator) -> torch.Tensor:
    decay = draw_uniform((channels,), 0.9, 0.999, generator)
    return torch.log(torch.expm1(-torch.log(decay) / RATE))


def _draw_rare_resets(batch: int, steps: int, generator: torch.Generator) -> torch.Tensor:
    reset = draw_uniform((batch, steps), 0.0, 1.0, generator) < 1 / 512
    return reset.scatter(1, draw_integers(1, steps, batch, generator).unsqueeze(1), value=True)


def generate(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return seeded inputs. Raises ValueError for an unknown distribution."""
    batch, steps, channels = shape = (dims["B"], dims["T"], dims["D"])
    x, gate = draw_gaussian(shape, generator), draw_gaussian(shape, generator)
    rate, reset = _draw_rate(channels, generator), _draw_rare_resets(batch, steps, generator)
    match distribution:
        case "slow-decay":
            gate += SLOW_GATE
        case "fast-decay":
            rate = draw_uniform((channels,), 0.0, LARGEST_RATE, generator)
        case "no-reset":
            reset = torch.zeros_like(reset)
        case "dense-reset":
            x = draw_log_magnitude(shape, generator)
            first = draw_integers(0, RESET_DISTANCE, batch, generator).unsqueeze(1)
            reset = torch.arange(steps, device=x.device) % RESET_DISTANCE == first
        case _:
            raise ValueError(f"unknown distribution {distribution!r}")
    return {"x": x, "gate": gate, "rate": rate, "reset": reset}


def compute_oracle(
    inputs: Mapping[str, torch.Tensor], state: Mapping[str, torch.Tensor], dims: Mapping[str, int]
) -> tuple[torch.Tensor, ...]:
    """Return h in float64, one step after another."""
    exponent = torch.logaddexp(inputs["rate"].double(), torch.zeros((), dtype=torch.float64, device=inputs["x"].device))
    exponent = RATE * exponent / (1.0 + torch.exp(-inputs["gate"].double()))
    x, reset = inputs["x"].double(), inputs["reset"].unsqueeze(-1)
    decay = torch.exp(-exponent).masked_fill_(reset, 0.0)
    # (1 - a) (1 + a), with 1 - a free of cancellation.
    factor = torch.sqrt(-torch.expm1(-exponent) * (1.0 + decay)).masked_fill_(reset, 1.0)
    h = factor.mul_(x)
    for step in range(1, h.shape[1]):
        h[:, step].addcmul_(decay[:, step], h[:, step - 1])
    return (h,)
