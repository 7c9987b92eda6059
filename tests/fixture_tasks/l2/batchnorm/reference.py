"""Linear layer, batch norm in evaluation mode, squared ReLU."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from verifier.inputs import draw_gaussian


class Model(nn.Module):
    """y = relu(norm(x W^T + b))^2 with the running statistics of the norm."""

    def __init__(self, features: int, channels: int) -> None:
        super().__init__()
        self.linear = nn.Linear(features, channels)
        self.norm = nn.BatchNorm1d(channels)
        # As after training: a fresh norm would do nothing.
        nn.init.normal_(self.norm.weight)
        nn.init.normal_(self.norm.bias)
        nn.init.normal_(self.norm.running_mean)
        nn.init.uniform_(self.norm.running_var, 0.25, 4.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.norm(self.linear(x))).square()


def get_init_inputs(dims: Mapping[str, int]) -> list[object]:
    """Return the arguments of the constructor: the numbers of features and channels."""
    return [dims["D"], dims["F"]]


def generate(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return seeded inputs. Raises ValueError for another distribution than gauss."""
    if distribution != "gauss":
        raise ValueError(f"unknown distribution {distribution!r}; known: gauss")
    return {"x": draw_gaussian((dims["N"], dims["D"]), generator)}
