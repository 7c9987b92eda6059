"""Neighbourhood max aggregation over a CSR graph."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from verifier.inputs import build_csr_graph, draw_gaussian


class Model(nn.Module):
    """y[i] = max of x[col[e]] over the edges e of row i; zeros when row i has none."""

    def forward(self, x: torch.Tensor, rowptr: torch.Tensor, col: torch.Tensor) -> torch.Tensor:
        messages = x.index_select(0, col)
        y = torch.segment_reduce(messages, "max", offsets=rowptr, axis=0)
        empty = rowptr.diff() == 0
        return y.masked_fill(empty.unsqueeze(-1), 0.0)


def get_init_inputs(dims: Mapping[str, int]) -> list[object]:
    """Return the arguments of the constructor: none."""
    return []


def generate(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return seeded inputs. Raises ValueError for another distribution than gauss-power-law."""
    if distribution != "gauss-power-law":
        raise ValueError(f"unknown distribution {distribution!r}; known: gauss-power-law")
    x = draw_gaussian((dims["N"], dims["D"]), generator)
    graph = build_csr_graph("power-law", dims["N"], dims["E"], generator)
    return {"x": x, "rowptr": graph.rowptr, "col": graph.col}
