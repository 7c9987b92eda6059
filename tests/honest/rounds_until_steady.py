# task: l1-09
# why: One kernel leaves each row's maximum; a second one repeats Newton's rounds until nothing moves any more.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def find_maximum(z_pointer, top_pointer, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    z = tl.load(z_pointer + row * columns + column, mask=column < columns, other=-float("inf"))
    tl.store(top_pointer + row, tl.max(z, axis=0))


@triton.jit
def project_row(z_pointer, top_pointer, p_pointer, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    z = tl.load(z_pointer + row * columns + column, mask=inside, other=-float("inf")) - tl.load(top_pointer + row)
    tau = -1.0
    count = 0.0
    support = z > tau
    size = tl.sum(support.to(tl.float32), axis=0)
    while size != count:
        count = size
        tau = (tl.sum(tl.where(support, z, 0.0), axis=0) - 1.0) / count
        support = z > tau
        size = tl.sum(support.to(tl.float32), axis=0)
    tl.store(p_pointer + row * columns + column, tl.maximum(z - tau, 0.0), mask=inside)


class ModelNew(nn.Module):
    def forward(self, z):
        rows, columns = z.shape
        p = torch.empty_like(z)
        top = z.new_empty(rows)
        block = triton.next_power_of_2(columns)
        find_maximum[(rows,)](z, top, columns, BLOCK=block)
        project_row[(rows,)](z, top, p, columns, BLOCK=block)
        return p
