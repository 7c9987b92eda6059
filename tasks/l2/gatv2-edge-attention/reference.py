"""GATv2 attention over a CSR graph: edge softmax, weighted aggregation, bias and ELU."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn
from torch.nn import functional

from verifier.inputs import build_self_loop_graph, draw_gaussian, list_destinations

NEGATIVE_SLOPE = 0.2


class Model(nn.Module):
    """y[i] = elu(sum of a[e] * xl[col[e]] over the edges e of node i + bias), a the softmax of the GATv2 logits."""

    def __init__(self, heads: int, features: int) -> None:
        super().__init__()
        self.att = nn.Parameter(0.5 * torch.randn(heads, features))
        self.bias = nn.Parameter(0.5 * torch.randn(heads * features))

    def forward(
        self, xl: torch.Tensor, xr: torch.Tensor, rowptr: torch.Tensor, col: torch.Tensor, row: torch.Tensor
    ) -> torch.Tensor:
        nodes, heads, features = xl.shape
        sources = xl[col]
        logits = (self.att * functional.leaky_relu(sources + xr[row], NEGATIVE_SLOPE)).sum(dim=-1)
        owners = row.unsqueeze(-1).expand_as(logits)
        largest = logits.new_full((nodes, heads), -torch.inf).scatter_reduce(0, owners, logits, "amax")
        weights = torch.exp(logits - largest[row])
        totals = weights.new_zeros(nodes, heads).index_add(0, row, weights)
        messages = (weights / totals[row]).unsqueeze(-1) * sources
        aggregated = torch.zeros_like(xl).index_add(0, row, messages)
        return functional.elu(aggregated.flatten(1) + self.bias)


def get_init_inputs(dims: Mapping[str, int]) -> list[object]:
    """Return the arguments of the constructor: the numbers of heads and of features of each."""
    return [dims["H"], dims["F"]]


def generate(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return seeded inputs. Raises ValueError for another distribution than gauss-power-law."""
    if distribution != "gauss-power-law":
        raise ValueError(f"unknown distribution {distribution!r}; known: gauss-power-law")
    shape = (dims["N"], dims["H"], dims["F"])
    xl, xr = draw_gaussian(shape, generator), draw_gaussian(shape, generator)
    rowptr, col = build_self_loop_graph("power-law", dims["N"], dims["E"], generator)
    return {"xl": xl, "xr": xr, "rowptr": rowptr, "col": col, "row": list_destinations(rowptr, dims["E"])}
