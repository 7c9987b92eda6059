# task: l1-14
# why: One program a matrix walks over anti-diagonals, which it keeps in global scratch memory.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def align(cost_pointer, scratch_pointer, value_pointer, n, m, BLOCK: tl.constexpr):
    matrix = tl.program_id(0)
    row = tl.arange(0, BLOCK)
    # Three anti-diagonals; place i + 1 belongs to row i, and place 0 to the border.
    scratch = scratch_pointer + matrix * 3 * (BLOCK + 1)
    for step in range(n + m - 1):
        newest = scratch + (step % 3) * (BLOCK + 1)
        newer = scratch + ((step + 2) % 3) * (BLOCK + 1)
        older = scratch + ((step + 1) % 3) * (BLOCK + 1)
        column = step - row
        inside = (row < n) & (column >= 0) & (column < m)
        cost = tl.load(cost_pointer + matrix * n * m + row * m + column, mask=inside, other=0.0)
        corner = tl.load(older + row)
        above = tl.load(newer + row)
        left = tl.load(newer + row + 1)
        least = tl.minimum(corner, tl.minimum(above, left))
        total = tl.exp((least - corner) * 10.0) + tl.exp((least - above) * 10.0) + tl.exp((least - left) * 10.0)
        result = cost + least - 0.1 * tl.log(total)
        tl.store(newest + row + 1, tl.where(inside, result, 1e9))
        tl.store(newest, 1e9)
        tl.debug_barrier()
    last = tl.load(scratch + ((n + m - 2) % 3) * (BLOCK + 1) + n)
    tl.store(value_pointer + matrix, last)


class ModelNew(nn.Module):
    def forward(self, cost):
        batch, rows, columns = cost.shape
        block = triton.next_power_of_2(rows)
        scratch = cost.new_full((batch, 3, block + 1), 1e9)
        scratch[:, 1, 0] = 0.0
        value = cost.new_empty(batch)
        align[(batch,)](cost, scratch, value, rows, columns, BLOCK=block)
        return value
