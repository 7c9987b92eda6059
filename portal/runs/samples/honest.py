# task: l1-09
# An honest sparsemax: bisection narrows tau in registers, then the support that it leaves gives tau exactly.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def sparsemax_row(z_pointer, p_pointer, columns, BLOCK: tl.constexpr, HALVINGS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    z = tl.load(z_pointer + row * columns + column, mask=inside, other=-float("inf"))
    z = z - tl.max(z, axis=0)
    low = -1.0
    width = 1.0
    for _ in range(HALVINGS):
        width = width * 0.5
        mass = tl.sum(tl.maximum(z - (low + width), 0.0), axis=0)
        low = tl.where(mass >= 1.0, low + width, low)
    support = z > low
    count = tl.sum(support.to(tl.float32), axis=0)
    tau = (tl.sum(tl.where(support, z, 0.0), axis=0) - 1.0) / count
    tl.store(p_pointer + row * columns + column, tl.maximum(z - tau, 0.0), mask=inside)


class ModelNew(nn.Module):
    def forward(self, z):
        rows, columns = z.shape
        p = torch.empty_like(z)
        sparsemax_row[(rows,)](z, p, columns, BLOCK=triton.next_power_of_2(columns), HALVINGS=24, num_warps=8)
        return p
