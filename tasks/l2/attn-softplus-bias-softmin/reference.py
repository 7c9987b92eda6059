"""Self-attention with softplus, bias and softmin."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn
from torch.nn import functional

from verifier.inputs import draw_gaussian


class Model(nn.Module):
    """y = softmin(softplus(softmax(x x^T / sqrt(D)) x) + bias) over the features."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(0.1 * torch.randn(features))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        # With an explicit head dimension PyTorch takes its memory-efficient kernel.
        heads = x.unsqueeze(1)
        attended = functional.scaled_dot_product_attention(heads, heads, heads).squeeze(1)
        return functional.softmin(functional.softplus(attended) + self.bias, dim=-1)


def get_init_inputs(dims: Mapping[str, int]) -> list[object]:
    """Return the arguments of the constructor: the number of features."""
    return [dims["D"]]


def generate(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return seeded inputs. Raises ValueError for another distribution than gauss."""
    if distribution != "gauss":
        raise ValueError(f"unknown distribution {distribution!r}; known: gauss")
    return {"x": draw_gaussian((dims["B"], dims["S"], dims["D"]), generator)}
