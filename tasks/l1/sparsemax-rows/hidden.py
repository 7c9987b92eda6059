"""Sparsemax of long rows: hidden inputs and the float64 oracle."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from verifier.inputs import draw_gaussian, draw_log_magnitude, draw_uniform

BISECTIONS = 64


def generate(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return seeded inputs. Raises ValueError for an unknown distribution."""
    shape = (dims["M"], dims["D"])
    match distribution:
        case "uniform-tight":
            return {"z": draw_uniform(shape, 0.0, 4.0 / dims["D"], generator)}
        case "log-magnitude":
            return {"z": draw_log_magnitude(shape, generator)}
        case "ties":
            return {"z": torch.round(draw_gaussian(shape, generator) * 8.0) / 8.0}
        case "offset":
            return {"z": draw_gaussian(shape, generator) + 1e4}
    raise ValueError(f"unknown distribution {distribution!r}")


def compute_oracle(
    inputs: Mapping[str, torch.Tensor], state: Mapping[str, torch.Tensor], dims: Mapping[str, int]
) -> tuple[torch.Tensor, ...]:
    """Return the projection in float64: tau by bisection, then exactly from the support that it bounds."""
    z = inputs["z"].double()
    high = z.amax(dim=-1, keepdim=True)
    low = high - 1.0
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        too_low = (z - middle).clamp(min=0.0).sum(dim=-1, keepdim=True) >= 1.0
        low, high = torch.where(too_low, middle, low), torch.where(too_low, high, middle)
    support = z > low
    tau = (torch.where(support, z, 0.0).sum(dim=-1, keepdim=True) - 1.0) / support.sum(dim=-1, keepdim=True)
    return ((z - tau).clamp(min=0.0),)
