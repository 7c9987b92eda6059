# task: l1-25
# why: One launch a level, each a pass over the whole matrix.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def combine(x_pointer, y_pointer, pairs, half, scale, BLOCK: tl.constexpr):
    pair = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = pair < pairs
    low = pair // half * (2 * half) + pair % half
    a = tl.load(x_pointer + low, mask=inside)
    b = tl.load(x_pointer + low + half, mask=inside)
    tl.store(y_pointer + low, (a + b) * scale, mask=inside)
    tl.store(y_pointer + low + half, (a - b) * scale, mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        columns = x.shape[1]
        pairs = x.numel() // 2
        half = 1
        while half < columns:
            y = torch.empty_like(x)
            scale = columns**-0.5 if 2 * half == columns else 1.0
            combine[(triton.cdiv(pairs, 1024),)](x, y, pairs, half, scale, BLOCK=1024)
            x = y
            half *= 2
        return x
