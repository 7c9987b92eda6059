# task: l1-09
# why: One kernel leaves each entry as an integer key in the order of the floats; the next bisects the keys bit by bit and makes floats of them again.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def to_key(x):
    bits = x.to(tl.int32, bitcast=True)
    return tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)


@triton.jit
def to_float(key):
    return tl.where(key < 0, key ^ 0x7FFFFFFF, key).to(tl.float32, bitcast=True)


@triton.jit
def make_keys(z_pointer, key_pointer, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    z = tl.load(z_pointer + row * columns + column, mask=column < columns, other=-float("inf"))
    tl.store(key_pointer + row * columns + column, to_key(z - tl.max(z, axis=0)), mask=column < columns)


@triton.jit
def project_row(key_pointer, p_pointer, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    key = tl.load(key_pointer + row * columns + column, mask=inside, other=-2147483647)
    z = tl.where(inside, to_float(key), -float("inf"))
    low = to_key(tl.full((1,), -1.0, tl.float32))
    high = tl.full((1,), 0, tl.int32)
    for _ in range(32):
        middle = (low >> 1) + (high >> 1) + (low & high & 1)
        total = tl.sum(tl.where(key > middle, z - to_float(middle), 0.0), axis=0)
        low = tl.where(total >= 1.0, middle, low)
        high = tl.where(total >= 1.0, high, middle)
    support = key > low
    count = tl.sum(support.to(tl.float32), axis=0)
    tau = (tl.sum(tl.where(support, z, 0.0), axis=0) - 1.0) / count
    tl.store(p_pointer + row * columns + column, tl.maximum(z - tau, 0.0), mask=inside)


class ModelNew(nn.Module):
    def forward(self, z):
        rows, columns = z.shape
        keys = torch.empty(rows, columns, dtype=torch.int32, device=z.device)
        p = torch.empty_like(z)
        block = triton.next_power_of_2(columns)
        make_keys[(rows,)](z, keys, columns, BLOCK=block)
        project_row[(rows,)](keys, p, columns, BLOCK=block)
        return p
