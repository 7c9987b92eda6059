"""Neighbourhood max aggregation over a CSR graph: hidden inputs and the oracle."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from verifier.inputs import GraphKind, build_csr_graph, draw_gaussian, draw_log_magnitude, draw_uniform

_GRAPHS: dict[str, GraphKind] = {
    "uniform-random": "uniform",
    "heavy-hub": "hub",
    "negative-only": "power-law",
    "ties-banded": "banded",
}


def _draw_features(distribution: str, shape: tuple[int, int], generator: torch.Generator) -> torch.Tensor:
    match distribution:
        case "uniform-random":
            return draw_uniform(shape, -1.0, 1.0, generator)
        case "heavy-hub":
            return draw_log_magnitude(shape, generator)
        case "negative-only":
            return -draw_gaussian(shape, generator).abs() - 0.1
        case "ties-banded":
            return torch.round(draw_gaussian(shape, generator) * 4.0) / 4.0
    raise ValueError(f"unknown distribution {distribution!r}")


def generate(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return seeded inputs. Raises ValueError for an unknown distribution."""
    x = _draw_features(distribution, (dims["N"], dims["D"]), generator)
    graph = build_csr_graph(_GRAPHS[distribution], dims["N"], dims["E"], generator)
    return {"x": x, "rowptr": graph.rowptr, "col": graph.col}


def compute_oracle(
    inputs: Mapping[str, torch.Tensor], state: Mapping[str, torch.Tensor], dims: Mapping[str, int]
) -> tuple[torch.Tensor, ...]:
    """Return the exact result in float64: every edge scattered to its destination, one feature at a time."""
    x, rowptr, col = inputs["x"].double(), inputs["rowptr"], inputs["col"]
    degrees = rowptr[1:] - rowptr[:-1]
    destination = torch.repeat_interleave(torch.arange(len(degrees), device=x.device), degrees)
    y = torch.full_like(x, -torch.inf)
    for feature in range(x.shape[1]):
        y[:, feature] = y[:, feature].scatter_reduce(0, destination, x[col, feature], "amax")
    y[degrees == 0] = 0.0
    return (y,)
