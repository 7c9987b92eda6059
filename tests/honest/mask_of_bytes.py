# task: l1-09
# why: A first kernel leaves the support as a mask of bytes, and a second one multiplies by it as a float.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def find_tau(z_pointer, tau_pointer, mask_pointer, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    block = tl.make_block_ptr(z_pointer + row * columns, (columns,), (1,), (0,), (BLOCK,), (0,))
    z = tl.load(block, boundary_check=(0,), padding_option="zero")
    column = tl.arange(0, BLOCK)
    z = tl.where(column < columns, z, float("-inf"))
    top = tl.max(z, 0)
    low = top - 1.0
    high = top
    for _ in range(40):
        middle = 0.5 * (low + high)
        above = tl.sum(tl.maximum(z - middle, 0.0), 0) >= 1.0
        low = tl.where(above, middle, low)
        high = tl.where(above, high, middle)
    support = z > low
    count = tl.sum(support.to(tl.int32), 0)
    shifted = tl.where(support, z - top, 0.0)
    tau = (tl.sum(shifted, 0) - 1.0) / count
    tl.store(tau_pointer + row * 2, top)
    tl.store(tau_pointer + row * 2 + 1, tau)
    tl.store(mask_pointer + row * columns + column, support.to(tl.uint8), mask=column < columns)


@triton.jit
def subtract(z_pointer, tau_pointer, mask_pointer, p_pointer, count, columns, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < count
    row = place // columns
    z = tl.load(z_pointer + place, mask=inside)
    top = tl.load(tau_pointer + row * 2, mask=inside)
    tau = tl.load(tau_pointer + row * 2 + 1, mask=inside)
    keep = tl.load(mask_pointer + place, mask=inside, other=0).to(tl.float32)
    tl.store(p_pointer + place, tl.maximum(z - top - tau, 0.0) * keep, mask=inside)


class ModelNew(nn.Module):
    def forward(self, z):
        rows, columns = z.shape
        p = torch.empty_like(z)
        tau = torch.empty((rows, 2), device=z.device, dtype=z.dtype)
        mask = torch.empty(z.shape, device=z.device, dtype=torch.uint8)
        find_tau[(rows,)](z, tau, mask, columns, BLOCK=triton.next_power_of_2(columns))
        subtract[(triton.cdiv(z.numel(), 512),)](z, tau, mask, p, z.numel(), columns, BLOCK=512)
        return p
