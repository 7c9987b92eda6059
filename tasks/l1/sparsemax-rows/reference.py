"""Sparsemax of long rows: the Euclidean projection of each row onto the probability simplex."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from verifier.inputs import draw_gaussian


class Model(nn.Module):
    """p[r] = max(z[r] - tau[r], 0), where tau[r] makes the row sum to 1."""

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        shifted = z - z.amax(dim=-1, keepdim=True)
        ordered = shifted.sort(dim=-1, descending=True).values
        excess = ordered.cumsum(dim=-1) - 1.0
        rank = torch.arange(1, z.shape[-1] + 1, device=z.device, dtype=z.dtype)
        support = (rank * ordered > excess).sum(dim=-1, keepdim=True)
        tau = excess.gather(-1, support - 1) / support
        return (shifted - tau).clamp(min=0.0)


def get_init_inputs(dims: Mapping[str, int]) -> list[object]:
    """Return the arguments of the constructor: none."""
    return []


def generate(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return seeded inputs. Raises ValueError for another distribution than gauss."""
    if distribution != "gauss":
        raise ValueError(f"unknown distribution {distribution!r}; known: gauss")
    return {"z": draw_gaussian((dims["M"], dims["D"]), generator)}
