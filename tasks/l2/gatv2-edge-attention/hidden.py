"""GATv2 attention over a CSR graph: hidden inputs and the float64 oracle."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from verifier.inputs import GraphKind, build_self_loop_graph, draw_gaussian, draw_uniform, list_destinations

LARGE = 32.0
NEGATIVE_SLOPE = 0.2

_GRAPHS: dict[str, GraphKind] = {
    "uniform-random": "uniform",
    "large-logits": "power-law",
    "heavy-hub": "hub",
    "self-only": "uniform",
}


def _draw_features(distribution: str, shape: tuple[int, int, int], generator: torch.Generator) -> torch.Tensor:
    match distribution:
        case "uniform-random":
            return draw_uniform(shape, -1.0, 1.0, generator)
        case "large-logits":
            return LARGE * draw_gaussian(shape, generator)
        case "heavy-hub" | "self-only":
            return draw_gaussian(shape, generator)
    raise ValueError(f"unknown distribution {distribution!r}")


def generate(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return seeded inputs. Raises ValueError for an unknown distribution."""
    shape = (dims["N"], dims["H"], dims["F"])
    xl, xr = (_draw_features(distribution, shape, generator) for _ in range(2))
    rowptr, col = build_self_loop_graph(_GRAPHS[distribution], dims["N"], dims["E"], generator)
    row = list_destinations(rowptr, dims["E"])
    if distribution == "self-only":
        col = row.clone()
    return {"xl": xl, "xr": xr, "rowptr": rowptr, "col": col, "row": row}


def compute_oracle(
    inputs: Mapping[str, torch.Tensor], state: Mapping[str, torch.Tensor], dims: Mapping[str, int]
) -> tuple[torch.Tensor, ...]:
    """Return y in float64, one head at a time: sums over segments of the sorted edges, weights by log-sum-exp."""
    xl, xr, att = inputs["xl"].double(), inputs["xr"].double(), state["att"].double()
    rowptr, col, row = inputs["rowptr"], inputs["col"], inputs["row"]
    heads = []
    for head in range(xl.shape[1]):
        sources = xl[col, head]
        summed = sources + xr[row, head]
        logits = torch.where(summed > 0, summed, NEGATIVE_SLOPE * summed) @ att[head]
        largest = torch.segment_reduce(logits, "max", offsets=rowptr)
        total = torch.segment_reduce(torch.exp(logits - largest[row]), "sum", offsets=rowptr)
        weights = torch.exp(logits - (largest + total.log())[row])
        heads.append(torch.segment_reduce(weights.unsqueeze(-1) * sources, "sum", offsets=rowptr, axis=0))
    shifted = torch.cat(heads, dim=-1) + state["bias"].double()
    return (torch.where(shifted > 0, shifted, torch.expm1(shifted)),)
