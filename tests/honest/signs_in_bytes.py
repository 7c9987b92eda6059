# task: l1-25
# why: The matrix of signs of the last levels is made once and kept in bytes of 1 and -1; the other levels are sums and differences in place.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def multiply_last(x_pointer, sign_pointer, y_pointer, count, scale, SIZE: tl.constexpr, ROWS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, SIZE)
    place = row[:, None] * SIZE + column[None, :]
    signs = tl.load(sign_pointer + column[:, None] * SIZE + column[None, :])
    x = tl.load(x_pointer + place, mask=(row < count)[:, None], other=0.0)
    y = tl.dot(x, signs.to(tl.float32), input_precision="ieee") * scale
    tl.store(y_pointer + place, y, mask=(row < count)[:, None])


@triton.jit
def combine(y_pointer, pairs, half, BLOCK: tl.constexpr):
    pair = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = pair < pairs
    low = pair // half * (2 * half) + pair % half
    a = tl.load(y_pointer + low, mask=inside)
    b = tl.load(y_pointer + low + half, mask=inside)
    tl.store(y_pointer + low, a + b, mask=inside)
    tl.store(y_pointer + low + half, a - b, mask=inside)


def make_signs(size):
    signs = torch.ones(1, 1, dtype=torch.int8)
    while len(signs) < size:
        signs = torch.cat([torch.cat([signs, signs], dim=1), torch.cat([signs, -signs], dim=1)])
    return signs


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.signs = None

    def forward(self, x):
        if self.signs is None:
            self.signs = make_signs(16).to(x.device)
        columns = x.shape[1]
        y = torch.empty_like(x)
        multiply_last[(triton.cdiv(x.numel() // 16, 32),)](
            x, self.signs, y, x.numel() // 16, columns**-0.5, SIZE=16, ROWS=32
        )
        half = 16
        while half < columns:
            combine[(triton.cdiv(x.numel() // 2, 1024),)](y, x.numel() // 2, half, BLOCK=1024)
            half *= 2
        return y
