"""Weighted embedding bags of many tables in Triton.

Strategy: one launch for all tables, and one small program for four bags of one table, so that many programs hide the
latency of each other's gathers. A program follows its bags four look-ups at a time: sixteen rows are in flight, each
read with 16-byte loads by neighbouring threads, and their partial sums stay apart until the end, when they are added
and written straight to their place beside the other tables. The tables are the slow axis of the grid, so popular
rows of one table at a time stay in the cache.
"""

import torch
import triton
import triton.language as tl
from torch import nn

BAGS = 4
LOOKUPS = 4


@triton.jit
def pool_bags(
    index_pointer, weight_pointer, offsets_pointer, tables_pointer, pooled_pointer, bags, rows, lookups, tables,
    D: tl.constexpr, WIDTH: tl.constexpr, BAGS: tl.constexpr, LOOKUPS: tl.constexpr,
):  # fmt: skip
    table = tl.program_id(1)
    index_pointer += table * lookups
    weight_pointer += table * lookups
    tables_pointer += table.to(tl.int64) * rows * D
    bag = tl.program_id(0) * BAGS + tl.arange(0, BAGS)
    offset_pointer = offsets_pointer + table * (bags + 1) + bag
    begin = tl.load(offset_pointer, mask=bag < bags, other=0).to(tl.int32)
    end = tl.load(offset_pointer + 1, mask=bag < bags, other=0).to(tl.int32)
    column = tl.arange(0, WIDTH)
    longest = tl.max(end - begin, axis=0)
    sums = tl.zeros((BAGS, LOOKUPS, WIDTH), tl.float32)
    for start in range(0, longest, LOOKUPS):
        lookup = begin[:, None] + start + tl.arange(0, LOOKUPS)[None, :]
        inside = lookup < end[:, None]
        row = tl.load(index_pointer + lookup, mask=inside, other=0)
        weight = tl.load(weight_pointer + lookup, mask=inside, other=0.0)
        place = tables_pointer + row[:, :, None] * D + column[None, None, :]
        values = tl.load(place, mask=inside[:, :, None] & (column < D)[None, None, :], other=0.0)
        sums += weight[:, :, None] * values
    target = pooled_pointer + (bag.to(tl.int64) * tables + table)[:, None] * D + column[None, :]
    tl.store(target, tl.sum(sums, axis=1), mask=(bag < bags)[:, None] & (column < D)[None, :])


class ModelNew(nn.Module):
    """Weighted sums of the rows that each bag looks up, for several tables side by side."""

    def __init__(self, count: int, rows: int, width: int) -> None:
        super().__init__()
        self.tables = nn.Parameter(torch.empty(count, rows, width))

    def forward(self, index: torch.Tensor, weight: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        count, rows, width = self.tables.shape
        bags = offsets.shape[1] - 1
        pooled = weight.new_empty(bags, count * width)
        pool_bags[(triton.cdiv(bags, BAGS), count)](
            index, weight, offsets, self.tables, pooled, bags, rows, index.shape[1], count,
            D=width, WIDTH=triton.next_power_of_2(width), BAGS=BAGS, LOOKUPS=LOOKUPS, num_warps=2,
        )  # fmt: skip
        return pooled
