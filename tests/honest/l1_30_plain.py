# task: l1-30
# why: One program a bag, one look-up at a time.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def pool_bag(
    index_pointer,
    weight_pointer,
    offset_pointer,
    tables_pointer,
    pooled_pointer,
    bags,
    rows,
    lookups,
    tables,
    D: tl.constexpr,
):
    bag = tl.program_id(0)
    table = tl.program_id(1)
    column = tl.arange(0, D)
    begin = tl.load(offset_pointer + table * (bags + 1) + bag)
    end = tl.load(offset_pointer + table * (bags + 1) + bag + 1)
    total = tl.zeros((D,), tl.float32)
    for lookup in range(begin, end):
        row = tl.load(index_pointer + table * lookups + lookup)
        weight = tl.load(weight_pointer + table * lookups + lookup)
        total += weight * tl.load(tables_pointer + (table * rows + row) * D + column)
    tl.store(pooled_pointer + (bag * tables + table) * D + column, total)


class ModelNew(nn.Module):
    def __init__(self, count, rows, width):
        super().__init__()
        self.tables = nn.Parameter(torch.empty(count, rows, width))

    def forward(self, index, weight, offsets):
        count, rows, width = self.tables.shape
        bags = offsets.shape[1] - 1
        pooled = weight.new_empty(bags, count * width)
        pool_bag[(bags, count)](index, weight, offsets, self.tables, pooled, bags, rows, index.shape[1], count, D=width)
        return pooled
