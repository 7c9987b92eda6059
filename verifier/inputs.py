"""Seeded draws that the tasks' generators share. Every tensor lies on the generator's device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import torch

ONE_EMPTY_ROW_IN = 20
LARGEST_DEGREE = 16_384
ZIPF_EXPONENT = 1.8
BANDWIDTH = 64

GraphKind = Literal["power-law", "uniform", "hub", "banded"]


class CsrGraph(NamedTuple):
    """Incoming edges by destination: row i owns `col[rowptr[i]:rowptr[i + 1]]`, its sources."""

    rowptr: torch.Tensor
    col: torch.Tensor


def draw_gaussian(shape: Sequence[int], generator: torch.Generator) -> torch.Tensor:
    """Return N(0, 1) values in float32."""
    return torch.randn(tuple(shape), generator=generator, device=generator.device)


def draw_uniform(shape: Sequence[int], low: float, high: float, generator: torch.Generator) -> torch.Tensor:
    """Return values between `low` and `high` in float32."""
    return torch.rand(tuple(shape), generator=generator, device=generator.device) * (high - low) + low


def draw_log_magnitude(shape: Sequence[int], generator: torch.Generator) -> torch.Tensor:
    """Return values of either sign whose magnitude is log-uniform from 1e-4 to 1e3."""
    magnitude = 10.0 ** draw_uniform(shape, -4.0, 3.0, generator)
    return torch.where(draw_uniform(shape, -1.0, 1.0, generator) < 0, -magnitude, magnitude)


def draw_integers(low: int, high: int, count: int, generator: torch.Generator) -> torch.Tensor:
    """Return `count` int64 values from `low` up to, not including, `high`."""
    return torch.randint(low, high, (count,), generator=generator, device=generator.device)


def draw_permutation(count: int, generator: torch.Generator) -> torch.Tensor:
    """Return the integers below `count` in random order."""
    return torch.randperm(count, generator=generator, device=generator.device)


def draw_zipf(count: int, generator: torch.Generator) -> torch.Tensor:
    """Return positive integers, in float64, whose tail falls like a Zipf law, at most `LARGEST_DEGREE`."""
    uniform = 1.0 - torch.rand(count, generator=generator, device=generator.device, dtype=torch.float64)
    return uniform.pow(-1.0 / (ZIPF_EXPONENT - 1.0)).floor().clamp(max=LARGEST_DEGREE)


def apportion(total: int, weights: torch.Tensor) -> torch.Tensor:
    """Return non-negative int64 counts that sum to `total` and follow `weights`; weight 0 gets 0."""
    bounds = weights.double().cumsum(0)
    bounds = (bounds / bounds[-1] * total + 0.5).floor().long()
    return bounds.diff(prepend=bounds.new_zeros(1))


def list_destinations(rowptr: torch.Tensor, edges: int) -> torch.Tensor:
    """Return the row that owns each of `edges` edges, int64."""
    rows = torch.arange(len(rowptr) - 1, device=rowptr.device)
    return torch.repeat_interleave(rows, rowptr.diff(), output_size=edges)


def build_self_loop_graph(kind: GraphKind, nodes: int, edges: int, generator: torch.Generator) -> CsrGraph:
    """Return a graph of `build_csr_graph` whose rows each own their own node last, so that none is empty.

    `edges` counts the self-loops too; there may be others by chance. Raises ValueError when there are fewer than three
    edges a node.
    """
    rowptr, sources = build_csr_graph(kind, nodes, edges - nodes, generator)
    node = torch.arange(nodes, device=rowptr.device)
    col = torch.empty(edges, dtype=torch.int64, device=rowptr.device)
    # Each row before an edge puts one self-loop before it.
    destinations = list_destinations(rowptr, edges - nodes)
    col[torch.arange(edges - nodes, device=rowptr.device) + destinations] = sources
    col[rowptr[1:] + node] = node
    return CsrGraph(rowptr + torch.arange(nodes + 1, device=rowptr.device), col)


def build_csr_graph(kind: GraphKind, nodes: int, edges: int, generator: torch.Generator) -> CsrGraph:
    """Return a graph with exactly `edges` edges, one row in twenty empty, every node the source of some edge.

    power-law: degrees and half of the sources follow a Zipf law. uniform: both ends uniform. hub: one row
    owns a tenth of the edges and half of the rows have at most two. banded: sources lie near their
    destination. Raises ValueError when there are fewer than two edges a node.
    """
    if edges < 2 * nodes:
        raise ValueError(f"{edges} edges are too few for {nodes} nodes: at least two a node are needed")
    degrees, col = _BUILDERS[kind](nodes, edges, generator)
    rowptr = torch.cat([degrees.new_zeros(1), degrees.cumsum(0)])
    return CsrGraph(rowptr, col)


def _pick_filled_rows(nodes: int, generator: torch.Generator) -> torch.Tensor:
    filled = torch.ones(nodes, dtype=torch.bool, device=generator.device)
    filled[draw_permutation(nodes, generator)[: max(1, nodes // ONE_EMPTY_ROW_IN)]] = False
    return filled


def _cover_nodes(col: torch.Tensor, nodes: int, generator: torch.Generator) -> torch.Tensor:
    """Overwrite random places of `col` with every node once."""
    col[draw_permutation(len(col), generator)[:nodes]] = draw_permutation(nodes, generator)
    return col


def _build_power_law(nodes: int, edges: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    filled = _pick_filled_rows(nodes, generator).long()
    # A first edge for every row that is not empty, the rest by weight: rounding must not empty the light rows.
    degrees = filled + apportion(edges - int(filled.sum()), draw_zipf(nodes, generator) * filled)
    popularity = draw_zipf(nodes, generator).cumsum(0)
    ticket = torch.rand(edges, generator=generator, device=generator.device, dtype=torch.float64) * popularity[-1]
    preferred = torch.searchsorted(popularity, ticket).clamp(max=nodes - 1)
    uniform = draw_integers(0, nodes, edges, generator)
    col = torch.where(draw_integers(0, 2, edges, generator).bool(), uniform, preferred)
    return degrees, _cover_nodes(col, nodes, generator)


def _build_uniform(nodes: int, edges: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    rows = _pick_filled_rows(nodes, generator).nonzero().flatten()
    destinations = rows[draw_integers(0, len(rows), edges, generator)]
    col = draw_integers(0, nodes, edges, generator)
    return torch.bincount(destinations, minlength=nodes), _cover_nodes(col, nodes, generator)


def _build_hub(nodes: int, edges: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    order = draw_permutation(nodes, generator)
    half = nodes // 2
    light = order[max(1, nodes // ONE_EMPTY_ROW_IN) : half]
    hub, others = order[half], order[half + 1 :]
    degrees = torch.zeros_like(order)
    degrees[light] = draw_integers(1, 3, len(light), generator)
    degrees[hub] = edges // 10
    degrees[others] = apportion(edges - int(degrees.sum()), draw_uniform((len(others),), 0.5, 1.5, generator))
    return degrees, _cover_nodes(draw_integers(0, nodes, edges, generator), nodes, generator)


def _build_banded(nodes: int, edges: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    node = torch.arange(nodes, device=generator.device)
    # Empty rows at a fixed distance: edge i * edges / nodes then belongs to a row near i, whatever the size.
    filled = node % ONE_EMPTY_ROW_IN != draw_integers(0, ONE_EMPTY_ROW_IN, 1, generator)
    degrees = apportion(edges, filled)
    reach = min(BANDWIDTH, max(4, nodes // 8))
    destinations = torch.repeat_interleave(node, degrees)
    col = (destinations + draw_integers(-reach, reach + 1, edges, generator)).clamp(0, nodes - 1)
    col[node * edges // nodes] = node
    return degrees, col


_BUILDERS: dict[GraphKind, Callable[[int, int, torch.Generator], tuple[torch.Tensor, torch.Tensor]]] = {
    "power-law": _build_power_law,
    "uniform": _build_uniform,
    "hub": _build_hub,
    "banded": _build_banded,
}
