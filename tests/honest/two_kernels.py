# task: l1-09
# why: One kernel finds tau, another applies it.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def find_tau(z_pointer, tau_pointer, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    z = tl.load(z_pointer + row * columns + column, mask=column < columns, other=-float("inf"))
    top = tl.max(z, axis=0)
    tau = -1.0
    for _ in range(16):
        support = z - top > tau
        count = tl.sum(support.to(tl.float32), axis=0)
        tau = (tl.sum(tl.where(support, z - top, 0.0), axis=0) - 1.0) / count
    tl.store(tau_pointer + 2 * row, top)
    tl.store(tau_pointer + 2 * row + 1, tau)


@triton.jit
def apply_tau(z_pointer, tau_pointer, p_pointer, columns, BLOCK: tl.constexpr):
    row = tl.program_id(1)
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = column < columns
    z = tl.load(z_pointer + row * columns + column, mask=inside, other=0.0) - tl.load(tau_pointer + 2 * row)
    tl.store(p_pointer + row * columns + column, tl.maximum(z - tl.load(tau_pointer + 2 * row + 1), 0.0), mask=inside)


class ModelNew(nn.Module):
    def forward(self, z):
        rows, columns = z.shape
        tau, p = z.new_empty(rows, 2), torch.empty_like(z)
        find_tau[(rows,)](z, tau, columns, BLOCK=triton.next_power_of_2(columns))
        apply_tau[(triton.cdiv(columns, 128), rows)](z, tau, p, columns, BLOCK=128)
        return p
