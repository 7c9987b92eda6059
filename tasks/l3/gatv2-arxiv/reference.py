"""GATv2: a node classifier of three attention layers over a graph."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn
from torch.nn import functional

from verifier.inputs import build_self_loop_graph, draw_gaussian, list_destinations

HEADS = 8
NEGATIVE_SLOPE = 0.2
EPSILON = 1e-5


class StoredNorm(nn.Module):
    """Batch norm by stored statistics, over the last dimension."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        # As after training.
        self.weight = nn.Parameter(1.0 + 0.2 * torch.randn(channels))
        self.bias = nn.Parameter(0.2 * torch.randn(channels))
        self.register_buffer("mean", 0.2 * torch.randn(channels))
        self.register_buffer("variance", torch.empty(channels).uniform_(0.2, 1.0))

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        return (h - self.mean) * torch.rsqrt(self.variance + EPSILON) * self.weight + self.bias


class Attention(nn.Module):
    """y[i] = sum of a[e] * source(h)[col[e]] over the edges e of node i, plus a bias.

    a is the softmax over the edges of each node of att . leaky_relu(source(h)[col[e]] + target(h)[i]), head by head.
    """

    def __init__(self, inputs: int, heads: int, features: int) -> None:
        super().__init__()
        self.source = nn.Linear(inputs, heads * features)
        self.target = nn.Linear(inputs, heads * features)
        self.att = nn.Parameter(0.5 * torch.randn(heads, features))
        self.bias = nn.Parameter(0.2 * torch.randn(heads * features))

    def forward(self, h: torch.Tensor, col: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
        values = self.source(h).unflatten(1, self.att.shape)[col]
        targets = self.target(h).unflatten(1, self.att.shape)[row]
        logits = (self.att * functional.leaky_relu(values + targets, NEGATIVE_SLOPE)).sum(dim=-1)
        owners = row.unsqueeze(-1).expand_as(logits)
        largest = logits.new_full((len(h), logits.shape[1]), -torch.inf).scatter_reduce(0, owners, logits, "amax")
        weights = torch.exp(logits - largest[row])
        totals = torch.zeros_like(largest).index_add(0, row, weights)
        messages = (weights / totals[row]).unsqueeze(-1) * values
        return h.new_zeros(len(h), *self.att.shape).index_add(0, row, messages).flatten(1) + self.bias


class Model(nn.Module):
    """Two attention layers of eight heads, each with a norm and ELU, then one of a single head over the classes."""

    def __init__(self, features: int, width: int, classes: int) -> None:
        super().__init__()
        self.attention1 = Attention(features, HEADS, width // HEADS)
        self.norm1 = StoredNorm(width)
        self.attention2 = Attention(width, HEADS, width // HEADS)
        self.norm2 = StoredNorm(width)
        self.attention3 = Attention(width, 1, classes)

    def forward(self, x: torch.Tensor, rowptr: torch.Tensor, col: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
        h = functional.elu(self.norm1(self.attention1(x, col, row)))
        h = functional.elu(self.norm2(self.attention2(h, col, row)))
        return self.attention3(h, col, row)


def get_init_inputs(dims: Mapping[str, int]) -> list[object]:
    """Return the arguments of the constructor: features of a node, width of the hidden layers and classes."""
    return [dims["FI"], dims["D"], dims["CLS"]]


def generate(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return seeded inputs. Raises ValueError for another distribution than gauss-power-law."""
    if distribution != "gauss-power-law":
        raise ValueError(f"unknown distribution {distribution!r}; known: gauss-power-law")
    x = draw_gaussian((dims["N"], dims["FI"]), generator)
    rowptr, col = build_self_loop_graph("power-law", dims["N"], dims["E"], generator)
    return {"x": x, "rowptr": rowptr, "col": col, "row": list_destinations(rowptr, dims["E"])}
