"""Mean, variance, argmax and standardised rows."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from verifier.inputs import draw_gaussian

EPSILON = 1e-3


class Model(nn.Module):
    """Returns (mean, variance, largest, z) of each row; `largest` is the first index of the row's maximum."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        mean = x.mean(dim=-1)
        variance = x.var(dim=-1)
        # argmax promises no order among equal entries, a minimum over their indices does.
        column = torch.arange(x.shape[-1], device=x.device)
        is_largest = x == x.amax(dim=-1, keepdim=True)
        largest = torch.where(is_largest, column, x.shape[-1]).amin(dim=-1)
        z = (x - mean.unsqueeze(-1)) * torch.rsqrt(variance + EPSILON).unsqueeze(-1)
        return mean, variance, largest, z


def get_init_inputs(dims: Mapping[str, int]) -> list[object]:
    """Return the arguments of the constructor: none."""
    return []


def generate(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return seeded inputs. Raises ValueError for another distribution than gauss."""
    if distribution != "gauss":
        raise ValueError(f"unknown distribution {distribution!r}; known: gauss")
    return {"x": draw_gaussian((dims["M"], dims["D"]), generator)}
