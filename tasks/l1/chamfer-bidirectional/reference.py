"""Bidirectional squared nearest-neighbour distances of two point sets."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from verifier.inputs import draw_gaussian


class Model(nn.Module):
    """d1[b, i] = min over j of |x[b, i] - y[b, j]|^2, and d2[b, j] = min over i of the same."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        distances = (x.unsqueeze(2) - y.unsqueeze(1)).square().sum(dim=-1)
        return distances.amin(dim=2), distances.amin(dim=1)


def get_init_inputs(dims: Mapping[str, int]) -> list[object]:
    """Return the arguments of the constructor: none."""
    return []


def generate(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return seeded inputs. Raises ValueError for another distribution than gauss."""
    if distribution != "gauss":
        raise ValueError(f"unknown distribution {distribution!r}; known: gauss")
    x = draw_gaussian((dims["B"], dims["N"], 3), generator)
    return {"x": x, "y": draw_gaussian((dims["B"], dims["M"], 3), generator)}
