"""GATv2 attention over a CSR graph in Triton.

Strategy: one warp pulls one node. It gathers eight source vectors at a time, each of them once, for the logits and for
the weighted sum alike, and keeps maximum, total and sum of every head in registers, rescaled as the maximum grows.
Nodes with more than `split` edges would keep a single warp busy for long. The edge list is cut into pieces of `split`
edges, and a piece holds at most two such nodes: the one of its first edge and the one of its last edge. Programs of
the same launch reduce each of these parts to a maximum, a total and a sum in scratch memory, and a second, small
launch merges the parts of a node.
"""

import math

import torch
import triton
import triton.language as tl
from torch import nn

EDGES_AT_ONCE = 8
PARTS_AT_ONCE = 16
LONGEST_PIECE = 128
NEGATIVE_SLOPE = 0.2
LOG2_E = math.log2(math.e)


@triton.jit
def activate(aggregated, bias_pointer, place):
    shifted = aggregated + tl.load(bias_pointer + place)
    return tl.where(shifted > 0.0, shifted, tl.exp(tl.minimum(shifted, 0.0)) - 1.0)


@triton.jit
def load_rows(pointer, row, inside, H: tl.constexpr, F: tl.constexpr, ROWS: tl.constexpr):
    # Loaded as whole rows, the features lie along the lanes of a warp and the rows in its registers.
    feature = tl.arange(0, H * F)
    rows = tl.load(pointer + row[:, None] * (H * F) + feature[None, :], mask=inside[:, None], other=0.0)
    return tl.reshape(rows, (ROWS, H, F))


@triton.jit
def choose_edges(rowptr_pointer, row_pointer, edges, split, pieces):
    # Programs below 2 * pieces take the first and the last node of a piece, when these are long; the others a node.
    program = tl.program_id(0)
    node = (program - 2 * pieces).to(tl.int64)
    first = (program // 2) * split
    last = tl.minimum(first + split, edges) - 1
    is_tail = program % 2
    in_piece = program < 2 * pieces
    if in_piece:
        node = tl.load(row_pointer + tl.where(is_tail == 1, last, first))
        repeated = (is_tail == 1) & (tl.load(row_pointer + first) == node)
        node = tl.where(repeated, -1, node)
    begin = tl.load(rowptr_pointer + node, mask=node >= 0, other=0).to(tl.int32)
    end = tl.load(rowptr_pointer + node + 1, mask=node >= 0, other=0).to(tl.int32)
    mine = (end - begin > split) == in_piece
    begin = tl.where(in_piece, tl.maximum(begin, first), begin)
    end = tl.where(in_piece, tl.minimum(end, last + 1), end)
    return node, begin, tl.where(mine, end, begin), in_piece


@triton.jit
def attend(
    xl_pointer, xr_pointer, rowptr_pointer, col_pointer, row_pointer, att_pointer, bias_pointer,
    sum_pointer, statistics_pointer, y_pointer, edges, split, pieces, slope, scale,
    H: tl.constexpr, F: tl.constexpr, EDGES: tl.constexpr,
):  # fmt: skip
    node, begin, end, in_piece = choose_edges(rowptr_pointer, row_pointer, edges, split, pieces)
    if begin < end:
        head = tl.arange(0, H)[None, :, None]
        place = head * F + tl.arange(0, F)[None, None, :]
        # With the weights in units of log 2, exp2 needs no multiplication of its own.
        att = tl.load(att_pointer + place) * scale
        target = tl.load(xr_pointer + node * (H * F) + place)
        largest = tl.full((1, H, 1), -float("inf"), tl.float32)
        total = tl.zeros((1, H, 1), tl.float32)
        aggregated = tl.zeros((1, H, F), tl.float32)
        for start in range(begin, end, EDGES):
            edge = start + tl.arange(0, EDGES)
            inside = edge < end
            source = tl.load(col_pointer + edge, mask=inside, other=0)
            values = load_rows(xl_pointer, source, inside, H, F, EDGES)
            summed = values + target
            logits = tl.sum(tl.maximum(summed, summed * slope) * att, axis=2, keep_dims=True)
            logits = tl.where(inside[:, None, None], logits, -float("inf"))
            larger = tl.maximum(largest, tl.max(logits, axis=0, keep_dims=True))
            shrink = tl.exp2(largest - larger)
            weights = tl.exp2(logits - larger)
            total = total * shrink + tl.sum(weights, axis=0, keep_dims=True)
            aggregated = aggregated * shrink + tl.sum(weights * values, axis=0, keep_dims=True)
            largest = larger
        if in_piece:
            part = tl.program_id(0)
            tl.store(sum_pointer + part * (H * F) + place, aggregated)
            tl.store(statistics_pointer + part * (2 * H) + head, largest)
            tl.store(statistics_pointer + part * (2 * H) + H + head, total)
        else:
            tl.store(y_pointer + node * (H * F) + place, activate(aggregated / total, bias_pointer, place))


@triton.jit
def merge_parts(
    rowptr_pointer, row_pointer, bias_pointer, sum_pointer, statistics_pointer, y_pointer, edges, split,
    H: tl.constexpr, F: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    # A long node holds the last edge of the piece in which it begins.
    piece = tl.program_id(0)
    first = piece * split
    node = tl.load(row_pointer + tl.minimum(first + split, edges) - 1)
    begin = tl.load(rowptr_pointer + node).to(tl.int32)
    end = tl.load(rowptr_pointer + node + 1).to(tl.int32)
    if (end - begin > split) & (begin >= first):
        head = tl.arange(0, H)[None, :, None]
        place = head * F + tl.arange(0, F)[None, None, :]
        largest = tl.full((1, H, 1), -float("inf"), tl.float32)
        total = tl.zeros((1, H, 1), tl.float32)
        aggregated = tl.zeros((1, H, F), tl.float32)
        stop = (end - 1) // split + 1
        for start in range(piece, stop, PARTS):
            at = start + tl.arange(0, PARTS)
            inside = at < stop
            # Where a node begins within a piece, its part there is the second of the two.
            part = tl.where((at == piece) & (begin > first), 2 * at + 1, 2 * at)
            statistic = statistics_pointer + part[:, None, None] * (2 * H) + head
            maximum = tl.load(statistic, mask=inside[:, None, None], other=-float("inf"))
            subtotal = tl.load(statistic + H, mask=inside[:, None, None], other=0.0)
            sums = load_rows(sum_pointer, part, inside, H, F, PARTS)
            larger = tl.maximum(largest, tl.max(maximum, axis=0, keep_dims=True))
            shrink = tl.exp2(largest - larger)
            factor = tl.exp2(maximum - larger)
            total = total * shrink + tl.sum(factor * subtotal, axis=0, keep_dims=True)
            aggregated = aggregated * shrink + tl.sum(factor * sums, axis=0, keep_dims=True)
            largest = larger
        tl.store(y_pointer + node * (H * F) + place, activate(aggregated / total, bias_pointer, place))


class ModelNew(nn.Module):
    """y[i] = elu(sum of a[e] * xl[col[e]] over the edges e of node i + bias), a the softmax of the GATv2 logits."""

    def __init__(self, heads: int, features: int) -> None:
        super().__init__()
        self.att = nn.Parameter(torch.zeros(heads, features))
        self.bias = nn.Parameter(torch.zeros(heads * features))

    def forward(
        self, xl: torch.Tensor, xr: torch.Tensor, rowptr: torch.Tensor, col: torch.Tensor, row: torch.Tensor
    ) -> torch.Tensor:
        nodes, heads, features = xl.shape
        edges = len(col)
        split = min(LONGEST_PIECE, triton.next_power_of_2(edges // 16))
        pieces = triton.cdiv(edges, split)
        sums = xl.new_empty(2 * pieces, heads, features)
        statistics = xl.new_empty(2 * pieces, 2, heads)
        y = xl.new_empty(nodes, heads * features)
        attend[(2 * pieces + nodes,)](
            xl, xr, rowptr, col, row, self.att, self.bias, sums, statistics, y,
            edges, split, pieces, NEGATIVE_SLOPE, LOG2_E, H=heads, F=features, EDGES=EDGES_AT_ONCE, num_warps=1,
        )  # fmt: skip
        merge_parts[(pieces,)](
            rowptr, row, self.bias, sums, statistics, y, edges, split,
            H=heads, F=features, PARTS=PARTS_AT_ONCE, num_warps=1,
        )  # fmt: skip
        return y
