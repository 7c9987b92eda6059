"""Group-wise correlation cost volume for stereo matching."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn
from torch.nn import functional

from verifier.inputs import draw_gaussian


class Model(nn.Module):
    """volume[b, g, d, y, x] = mean over the channels c of group g of left[b, c, y, x] * right[b, c, y, x - d]."""

    def __init__(self, groups: int, disparities: int) -> None:
        super().__init__()
        self.groups, self.disparities = groups, disparities

    def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        width = left.shape[-1]
        planes = []
        for disparity in range(self.disparities):
            product = left[..., disparity:] * right[..., : width - disparity]
            correlation = product.unflatten(1, (self.groups, -1)).mean(dim=2)
            planes.append(functional.pad(correlation, (disparity, 0)))
        return torch.stack(planes, dim=2)


def get_init_inputs(dims: Mapping[str, int]) -> list[object]:
    """Return the arguments of the constructor: the numbers of groups and of disparities."""
    return [dims["G"], dims["D"]]


def generate(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return seeded inputs. Raises ValueError for another distribution than gauss."""
    if distribution != "gauss":
        raise ValueError(f"unknown distribution {distribution!r}; known: gauss")
    shape = (dims["B"], dims["C"], dims["H"], dims["W"])
    return {"left": draw_gaussian(shape, generator), "right": draw_gaussian(shape, generator)}
