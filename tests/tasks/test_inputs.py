"""The draws that generators share."""

from __future__ import annotations

import pytest
import torch

from verifier.inputs import (
    BANDWIDTH,
    CsrGraph,
    GraphKind,
    apportion,
    build_csr_graph,
    build_self_loop_graph,
    draw_log_magnitude,
    list_destinations,
)

SIZES = [(48, 220), (2_000, 32_000), (40_000, 100_000)]
KINDS: list[GraphKind] = ["power-law", "uniform", "hub", "banded"]


def build(kind: GraphKind, nodes: int, edges: int, seed: int = 1) -> CsrGraph:
    return build_csr_graph(kind, nodes, edges, torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(("nodes", "edges"), SIZES)
@pytest.mark.parametrize("kind", KINDS)
def test_graph_is_well_formed(kind: GraphKind, nodes: int, edges: int) -> None:
    rowptr, col = build(kind, nodes, edges)
    assert rowptr.dtype == col.dtype == torch.int64
    assert (len(rowptr), len(col)) == (nodes + 1, edges)
    assert (int(rowptr[0]), int(rowptr[-1])) == (0, edges)
    assert (rowptr.diff() >= 0).all()
    assert torch.equal(col.unique(), torch.arange(nodes))


@pytest.mark.parametrize(("nodes", "edges"), SIZES)
@pytest.mark.parametrize("kind", ["power-law", "hub", "banded"])
def test_one_row_in_twenty_is_empty(kind: GraphKind, nodes: int, edges: int) -> None:
    empty = int((build(kind, nodes, edges).rowptr.diff() == 0).sum())
    assert nodes // 20 <= empty <= nodes // 20 + 1


@pytest.mark.parametrize(("nodes", "edges"), SIZES)
def test_uniform_graph_has_empty_rows(nodes: int, edges: int) -> None:
    assert int((build("uniform", nodes, edges).rowptr.diff() == 0).sum()) >= nodes // 20


@pytest.mark.parametrize(("nodes", "edges"), SIZES)
def test_hub_owns_a_tenth_of_the_edges(nodes: int, edges: int) -> None:
    degrees = build("hub", nodes, edges).rowptr.diff()
    assert int(degrees.max()) == edges // 10
    assert int((degrees <= 2).sum()) >= nodes // 2


@pytest.mark.parametrize(("nodes", "edges"), SIZES)
def test_banded_sources_lie_near(nodes: int, edges: int) -> None:
    rowptr, col = build("banded", nodes, edges)
    destinations = torch.repeat_interleave(torch.arange(nodes), rowptr.diff())
    assert int((col - destinations).abs().max()) <= BANDWIDTH


def test_power_law_degrees_are_skewed() -> None:
    degrees = build("power-law", 40_000, 640_000).rowptr.diff()
    assert int(degrees.median()) <= 4
    assert int(degrees.max()) > 100 * 16


@pytest.mark.parametrize("kind", KINDS)
def test_graph_follows_the_seed(kind: GraphKind) -> None:
    first, again, other = (build(kind, 200, 2_000, seed) for seed in (3, 3, 4))
    assert torch.equal(first.rowptr, again.rowptr)
    assert torch.equal(first.col, again.col)
    assert not torch.equal(first.col, other.col)


@pytest.mark.parametrize(("nodes", "edges"), SIZES)
@pytest.mark.parametrize("kind", KINDS)
def test_self_loops_are_added_to_the_graph_without(kind: GraphKind, nodes: int, edges: int) -> None:
    plain = build(kind, nodes, edges)
    rowptr, col = build_self_loop_graph(kind, nodes, edges + nodes, torch.Generator().manual_seed(1))
    assert torch.equal(rowptr.diff(), plain.rowptr.diff() + 1)
    last = torch.zeros(edges + nodes, dtype=torch.bool)
    last[rowptr[1:] - 1] = True
    assert torch.equal(col[last], torch.arange(nodes))
    assert torch.equal(col[~last], plain.col)


def test_destinations_are_the_owners_of_the_edges() -> None:
    rowptr = torch.tensor([0, 2, 2, 5])
    assert list_destinations(rowptr, 5).tolist() == [0, 0, 2, 2, 2]


def test_too_few_edges_are_refused() -> None:
    with pytest.raises(ValueError, match="at least two a node"):
        build("power-law", 100, 199)


def test_apportion_sums_to_the_total_and_gives_nothing_for_no_weight() -> None:
    parts = apportion(17, torch.tensor([1.0, 0.0, 2.5, 1.0]))
    assert int(parts.sum()) == 17
    assert int(parts[1]) == 0
    assert int(parts[2]) > int(parts[0]) > 0


def test_log_magnitude_spans_seven_decades() -> None:
    values = draw_log_magnitude((20_000,), torch.Generator().manual_seed(5))
    assert values.abs().min() < 2e-4
    assert values.abs().max() > 500
    assert 0.4 < (values < 0).double().mean() < 0.6
