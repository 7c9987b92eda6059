# task: l1-25
# why: Two products with matrices of signs that the kernel makes of the parity of its indices.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def make_signs(SIZE: tl.constexpr):
    row = tl.arange(0, SIZE)[:, None]
    column = tl.arange(0, SIZE)[None, :]
    bits = row & column
    bits ^= bits >> 4
    bits ^= bits >> 2
    bits ^= bits >> 1
    return 1.0 - 2.0 * (bits & 1).to(tl.float32)


@triton.jit
def multiply_last(x_pointer, y_pointer, count, scale, SIZE: tl.constexpr, ROWS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, SIZE)
    place = row[:, None] * SIZE + column[None, :]
    x = tl.load(x_pointer + place, mask=(row < count)[:, None], other=0.0)
    y = tl.dot(x, make_signs(SIZE), input_precision="ieee") * scale
    tl.store(y_pointer + place, y, mask=(row < count)[:, None])


@triton.jit
def combine(y_pointer, pairs, half, scale, BLOCK: tl.constexpr):
    pair = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = pair < pairs
    low = (pair & ~(half - 1)) * 2 | (pair & (half - 1))
    a = tl.load(y_pointer + low, mask=inside)
    b = tl.load(y_pointer + (low ^ half), mask=inside)
    tl.store(y_pointer + low, (a + b) * scale, mask=inside)
    tl.store(y_pointer + (low ^ half), (a - b) * scale, mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        columns = x.shape[1]
        y = torch.empty_like(x)
        multiply_last[(triton.cdiv(x.numel() // 16, 32),)](x, y, x.numel() // 16, columns**-0.5, SIZE=16, ROWS=32)
        half = 16
        while half < columns:
            combine[(triton.cdiv(x.numel() // 2, 1024),)](y, x.numel() // 2, half, 1.0, BLOCK=1024)
            half *= 2
        return y
