"""GATv2 node classifier in PyTorch's products and Triton's attention, IEEE fp32 throughout.

Strategy: the products over nodes stay with the library, source and target part side by side as one product. Attention
is a single pass over the edges: a program pulls one node, gathers the sources of several edges at a time, uses each of
them for the logits and for the weighted sum alike, and keeps maximum, total and sum of every head in registers. Norm
and ELU end the same kernel. Nodes of more than `split` edges would hold their program up for long, so the list of edges
is also cut into pieces of `split` edges. A piece meets at most two such nodes, the one of its first and the one of its
last edge; programs of the same launch reduce these parts to scratch memory, and a small second launch merges them.
"""

import math
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import nn

HEADS = 8
NEGATIVE_SLOPE = 0.2
EPSILON = 1e-5
LOG2_E = math.log2(math.e)
LONGEST_PIECE = 128
PARTS_AT_ONCE = 8


@triton.jit
def load_heads(pointer, row, inside, stride, H: tl.constexpr, F: tl.constexpr, P: tl.constexpr, ROWS: tl.constexpr):
    # Whole rows lie along the lanes; F features of a head are padded to P.
    place = tl.arange(0, H * P)
    mask = inside[:, None] & (place < H * F)[None, :]
    rows = tl.load(pointer + row[:, None] * stride + place[None, :], mask=mask, other=0.0)
    return tl.reshape(rows, (ROWS, H, P))


@triton.jit
def finish(value, scale_pointer, shift_pointer, place, known, ACTIVATE: tl.constexpr):
    value = value * tl.load(scale_pointer + place, mask=known, other=0.0)
    value += tl.load(shift_pointer + place, mask=known, other=0.0)
    if ACTIVATE:
        value = tl.where(value > 0.0, value, tl.exp(tl.minimum(value, 0.0)) - 1.0)
    return value


@triton.jit
def join(largest, total, aggregated, maximum, subtotal, weights, values):
    # Rescale what is known of a node to a larger maximum, and add rows of `values` with their `weights`.
    larger = tl.maximum(largest, tl.max(maximum, axis=0, keep_dims=True))
    shrink = tl.exp2(largest - larger)
    factor = tl.exp2(weights - larger)
    total = total * shrink + tl.sum(factor * subtotal, axis=0, keep_dims=True)
    aggregated = aggregated * shrink + tl.sum(factor * values, axis=0, keep_dims=True)
    return larger, total, aggregated


@triton.jit
def attend(
    node_pointer, rowptr_pointer, col_pointer, row_pointer, att_pointer, scale_pointer, shift_pointer,
    sum_pointer, statistics_pointer, y_pointer, edges, split, pieces, slope, unit,
    H: tl.constexpr, F: tl.constexpr, P: tl.constexpr, EDGES: tl.constexpr, ACTIVATE: tl.constexpr,
):  # fmt: skip
    # The first 2 * pieces programs take the first and the last node of a piece, when it is long; the others a node.
    program = tl.program_id(0)
    in_piece = program < 2 * pieces
    first = (program // 2) * split
    last = tl.minimum(first + split, edges) - 1
    node = (program - 2 * pieces).to(tl.int64)
    if in_piece:
        node = tl.load(row_pointer + tl.where(program % 2 == 1, last, first))
        if program % 2 == 1:
            node = tl.where(tl.load(row_pointer + first) == node, -1, node)
    begin = tl.load(rowptr_pointer + node, mask=node >= 0, other=0).to(tl.int32)
    end = tl.load(rowptr_pointer + node + 1, mask=node >= 0, other=0).to(tl.int32)
    mine = (end - begin > split) == in_piece
    if in_piece:
        begin = tl.maximum(begin, first)
        end = tl.minimum(end, last + 1)
    if mine & (begin < end):
        head = tl.arange(0, H)[None, :, None]
        feature = tl.arange(0, P)[None, None, :]
        place = head * F + feature
        known = feature < F
        # With logits in units of log 2, exp2 needs no multiplication of its own.
        att = tl.load(att_pointer + place, mask=known, other=0.0) * unit
        target = tl.load(node_pointer + node * (2 * H * F) + H * F + place, mask=known, other=0.0)
        largest = tl.full((1, H, 1), -float("inf"), tl.float32)
        total = tl.zeros((1, H, 1), tl.float32)
        aggregated = tl.zeros((1, H, P), tl.float32)
        for start in range(begin, end, EDGES):
            edge = start + tl.arange(0, EDGES)
            inside = edge < end
            source = tl.load(col_pointer + edge, mask=inside, other=0)
            values = load_heads(node_pointer, source, inside, 2 * H * F, H, F, P, EDGES)
            summed = values + target
            logits = tl.sum(tl.maximum(summed, summed * slope) * att, axis=2, keep_dims=True)
            logits = tl.where(inside[:, None, None], logits, -float("inf"))
            largest, total, aggregated = join(largest, total, aggregated, logits, 1.0, logits, values)
        if in_piece:
            tl.store(sum_pointer + program * (H * P) + head * P + feature, aggregated)
            tl.store(statistics_pointer + program * (2 * H) + head, largest)
            tl.store(statistics_pointer + program * (2 * H) + H + head, total)
        else:
            y = finish(aggregated / total, scale_pointer, shift_pointer, place, known, ACTIVATE)
            tl.store(y_pointer + node * (H * F) + place, y, mask=known)


@triton.jit
def merge_parts(
    rowptr_pointer, row_pointer, scale_pointer, shift_pointer, sum_pointer, statistics_pointer, y_pointer, edges, split,
    H: tl.constexpr, F: tl.constexpr, P: tl.constexpr, PARTS: tl.constexpr, ACTIVATE: tl.constexpr,
):  # fmt: skip
    # A long node is merged for the piece in which it begins, whose last edge it holds.
    piece = tl.program_id(0)
    first = piece * split
    node = tl.load(row_pointer + tl.minimum(first + split, edges) - 1)
    begin = tl.load(rowptr_pointer + node).to(tl.int32)
    end = tl.load(rowptr_pointer + node + 1).to(tl.int32)
    if (end - begin > split) & (begin >= first):
        head = tl.arange(0, H)[None, :, None]
        feature = tl.arange(0, P)[None, None, :]
        place = head * F + feature
        known = feature < F
        largest = tl.full((1, H, 1), -float("inf"), tl.float32)
        total = tl.zeros((1, H, 1), tl.float32)
        aggregated = tl.zeros((1, H, P), tl.float32)
        stop = (end - 1) // split + 1
        for start in range(piece, stop, PARTS):
            at = start + tl.arange(0, PARTS)
            inside = at < stop
            # Only where it begins within a piece is its part the second of the two.
            part = tl.where((at == piece) & (begin > first), 2 * at + 1, 2 * at)
            statistic = statistics_pointer + part[:, None, None] * (2 * H) + head
            maximum = tl.load(statistic, mask=inside[:, None, None], other=-float("inf"))
            subtotal = tl.load(statistic + H, mask=inside[:, None, None], other=0.0)
            sums = load_heads(sum_pointer, part, inside, H * P, H, P, P, PARTS)
            largest, total, aggregated = join(largest, total, aggregated, maximum, subtotal, maximum, sums)
        y = finish(aggregated / total, scale_pointer, shift_pointer, place, known, ACTIVATE)
        tl.store(y_pointer + node * (H * F) + place, y, mask=known)


class StoredNorm(nn.Module):
    """The parameters and statistics of a batch norm."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("variance", torch.ones(channels))


class Attention(nn.Module):
    """The parameters of one attention layer."""

    def __init__(self, inputs: int, heads: int, features: int) -> None:
        super().__init__()
        self.source = nn.Linear(inputs, heads * features)
        self.target = nn.Linear(inputs, heads * features)
        self.att = nn.Parameter(torch.zeros(heads, features))
        self.bias = nn.Parameter(torch.zeros(heads * features))


class Graph(NamedTuple):
    """The edges of one call."""

    rowptr: torch.Tensor
    col: torch.Tensor
    row: torch.Tensor


class FoldedLayer(NamedTuple):
    """Both products of a layer side by side, its logits' weights, and what follows the weighted sum."""

    weight: torch.Tensor
    bias: torch.Tensor
    att: torch.Tensor
    scale: torch.Tensor
    shift: torch.Tensor
    activate: bool


def fold(layer: Attention, norm: StoredNorm | None) -> FoldedLayer:
    """Return the layer with its own bias and the norm after it as one scale and shift."""
    scale, shift = torch.ones_like(layer.bias), layer.bias
    if norm is not None:
        scale = norm.weight / torch.sqrt(norm.variance + EPSILON)
        shift = (layer.bias - norm.mean) * scale + norm.bias
    weight = torch.cat([layer.source.weight, layer.target.weight]).t()
    bias = torch.cat([layer.source.bias, layer.target.bias])
    return FoldedLayer(weight, bias, layer.att, scale, shift, norm is not None)


class ModelNew(nn.Module):
    """Two attention layers of eight heads, each with a norm and ELU, then one of a single head over the classes."""

    def __init__(self, features: int, width: int, classes: int) -> None:
        super().__init__()
        self.attention1 = Attention(features, HEADS, width // HEADS)
        self.norm1 = StoredNorm(width)
        self.attention2 = Attention(width, HEADS, width // HEADS)
        self.norm2 = StoredNorm(width)
        self.attention3 = Attention(width, 1, classes)
        self.folded = None

    def forward(self, x: torch.Tensor, rowptr: torch.Tensor, col: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
        if self.folded is None:
            norms = (self.norm1, self.norm2, None)
            layers = (self.attention1, self.attention2, self.attention3)
            self.folded = [fold(layer, norm) for layer, norm in zip(layers, norms, strict=True)]
        h = x
        for layer in self.folded:
            h = run_layer(h, layer, Graph(rowptr, col, row))
        return h


def run_layer(h: torch.Tensor, layer: FoldedLayer, graph: Graph) -> torch.Tensor:
    """Return one attention layer with its norm and activation, N x H F."""
    heads, features = layer.att.shape
    padded = triton.next_power_of_2(features)
    edges, nodes = len(graph.col), len(h)
    split = min(LONGEST_PIECE, triton.next_power_of_2(edges // 16))
    pieces = triton.cdiv(edges, split)
    sums = h.new_empty(2 * pieces, heads, padded)
    statistics = h.new_empty(2 * pieces, 2, heads)
    y = h.new_empty(nodes, heads * features)
    sizes = {"H": heads, "F": features, "P": padded, "ACTIVATE": layer.activate}
    # Eight rows of 256 features fill the registers of two warps, eight of 64 half of those of one.
    warps = max(1, heads * padded // 128)
    attend[(2 * pieces + nodes,)](
        torch.addmm(layer.bias, h, layer.weight), graph.rowptr, graph.col, graph.row, layer.att, layer.scale,
        layer.shift, sums, statistics, y, edges, split, pieces, NEGATIVE_SLOPE, LOG2_E,
        EDGES=8, num_warps=warps, **sizes,
    )  # fmt: skip
    merge_parts[(pieces,)](
        graph.rowptr, graph.row, layer.scale, layer.shift, sums, statistics, y, edges, split,
        PARTS=PARTS_AT_ONCE, num_warps=warps, **sizes,
    )  # fmt: skip
    return y
