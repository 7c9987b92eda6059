"""A matrix plus another one whose columns are scaled."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from verifier.inputs import draw_gaussian


class Model(nn.Module):
    """y = x + scale * z, with one factor a column."""

    def __init__(self, columns: int) -> None:
        super().__init__()
        # Drawn by torch's own generator, which the judge has seeded.
        self.scale = nn.Parameter(torch.randn(columns))

    def forward(self, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        return x + self.scale * z


def get_init_inputs(dims: Mapping[str, int]) -> list[object]:
    """Return the arguments of the constructor: the number of columns."""
    return [dims["D"]]


def generate(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return seeded inputs by name, on the generator's device. Raises ValueError for another distribution than gauss."""
    if distribution != "gauss":
        raise ValueError(f"unknown distribution {distribution!r}; known: gauss")
    shape = (dims["N"], dims["D"])
    return {"x": draw_gaussian(shape, generator), "z": draw_gaussian(shape, generator)}
