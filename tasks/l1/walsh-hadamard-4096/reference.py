"""Fast Walsh-Hadamard transform of long rows."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from verifier.inputs import draw_gaussian


class Model(nn.Module):
    """y = x H / sqrt(D), with the Hadamard matrix H of order D in natural order; D is a power of two."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        columns = x.shape[-1]
        y = x
        half = 1
        while half < columns:
            low, high = y.view(-1, columns // (2 * half), 2, half).unbind(dim=2)
            y = torch.stack([low + high, low - high], dim=2)
            half *= 2
        return y.view_as(x) / columns**0.5


def get_init_inputs(dims: Mapping[str, int]) -> list[object]:
    """Return the arguments of the constructor: none."""
    return []


def generate(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return seeded inputs. Raises ValueError for another distribution than gauss."""
    if distribution != "gauss":
        raise ValueError(f"unknown distribution {distribution!r}; known: gauss")
    return {"x": draw_gaussian((dims["M"], dims["D"]), generator)}
