"""Neighbourhood max aggregation over a CSR graph in Triton.

Strategy: one warp pulls one row, gathering sixteen source vectors at a time, so that sixteen loads are in
flight. Rows longer than `split` edges would keep a single warp busy for long: the first kernel only sets
them to minus infinity, and a second one cuts the edge list into pieces of `split` edges and folds each
piece into its row with an atomic maximum. A row longer than a piece contains the first or the last edge of
every piece that it touches, so two binary searches per piece find all long rows in it.
"""

import torch
import triton
import triton.language as tl
from torch import nn

EDGES_AT_ONCE = 16
LONGEST_PIECE = 256


@triton.jit
def gather_maximum(x_pointer, col_pointer, begin, end, D: tl.constexpr, EDGES: tl.constexpr):
    feature = tl.arange(0, D)
    largest = tl.full((EDGES, D), -float("inf"), tl.float32)
    for start in range(begin, end, EDGES):
        edge = start + tl.arange(0, EDGES)
        source = tl.load(col_pointer + edge, mask=edge < end, other=0)
        message = tl.load(
            x_pointer + source[:, None] * D + feature[None, :], mask=(edge < end)[:, None], other=-float("inf")
        )
        largest = tl.maximum(largest, message)
    return tl.max(largest, axis=0)


@triton.jit
def pull_rows(x_pointer, rowptr_pointer, col_pointer, y_pointer, split, D: tl.constexpr, EDGES: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    begin = tl.load(rowptr_pointer + row).to(tl.int32)
    end = tl.load(rowptr_pointer + row + 1).to(tl.int32)
    # A long row is left to the second kernel: an empty range gives minus infinity.
    stop = tl.where(end - begin > split, begin, end)
    y = gather_maximum(x_pointer, col_pointer, begin, stop, D, EDGES)
    y = tl.where(begin == end, 0.0, y)
    tl.store(y_pointer + row * D + tl.arange(0, D), y)


@triton.jit
def find_row(rowptr_pointer, edge, rows):
    low = 0
    high = rows
    while high - low > 1:
        middle = (low + high) // 2
        before = tl.load(rowptr_pointer + middle) <= edge
        low = tl.where(before, middle, low)
        high = tl.where(before, high, middle)
    return low


@triton.jit
def fold_piece(
    x_pointer, rowptr_pointer, col_pointer, y_pointer, row, first, last, split, D: tl.constexpr, EDGES: tl.constexpr
):
    begin = tl.load(rowptr_pointer + row).to(tl.int32)
    end = tl.load(rowptr_pointer + row + 1).to(tl.int32)
    if end - begin > split:
        y = gather_maximum(x_pointer, col_pointer, tl.maximum(begin, first), tl.minimum(end, last + 1), D, EDGES)
        # Adding zero turns -0.0 into 0.0: the atomic maximum compares bit patterns by sign.
        tl.atomic_max(y_pointer + row.to(tl.int64) * D + tl.arange(0, D), y + 0.0)


@triton.jit
def fold_pieces(
    x_pointer, rowptr_pointer, col_pointer, y_pointer, rows, edges, split, D: tl.constexpr, EDGES: tl.constexpr
):
    first = tl.program_id(0) * split
    last = tl.minimum(first + split, edges) - 1
    head = find_row(rowptr_pointer, first, rows)
    tail = find_row(rowptr_pointer, last, rows)
    fold_piece(x_pointer, rowptr_pointer, col_pointer, y_pointer, head, first, last, split, D, EDGES)
    if tail != head:
        fold_piece(x_pointer, rowptr_pointer, col_pointer, y_pointer, tail, first, last, split, D, EDGES)


class ModelNew(nn.Module):
    """y[i] = max of x[col[e]] over the edges e of row i; zeros when row i has none."""

    def forward(self, x: torch.Tensor, rowptr: torch.Tensor, col: torch.Tensor) -> torch.Tensor:
        rows, width = x.shape
        edges = col.shape[0]
        split = min(LONGEST_PIECE, triton.next_power_of_2(edges // 16))
        y = torch.empty_like(x)
        sizes = {"D": width, "EDGES": EDGES_AT_ONCE, "num_warps": 1}
        pull_rows[(rows,)](x, rowptr, col, y, split, **sizes)
        fold_pieces[(triton.cdiv(edges, split),)](x, rowptr, col, y, rows, edges, split, **sizes)
        return y
