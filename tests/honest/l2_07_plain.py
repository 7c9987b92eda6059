# task: l2-07
# why: One program a pixel, with the whole window at once.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def attend(
    q_pointer, k_pointer, v_pointer, bias_pointer, o_pointer, heads, height, width, scale,
    D: tl.constexpr, WINDOW: tl.constexpr,
):  # fmt: skip
    x = tl.program_id(0)
    y = tl.program_id(1)
    image = tl.program_id(2) * height * width
    feature = tl.arange(0, D)
    q = tl.load(q_pointer + (image + y * width + x) * D + feature) * scale
    top = tl.minimum(tl.maximum(y - WINDOW // 2, 0), height - WINDOW)
    left = tl.minimum(tl.maximum(x - WINDOW // 2, 0), width - WINDOW)
    # All rows and columns of the window at once: 64 places, of which 49 are used.
    place = tl.arange(0, 64)
    row = top + place // 8
    column = left + place % 8
    inside = (place // 8 < WINDOW) & (place % 8 < WINDOW)
    neighbour = (image + row * width + column)[:, None] * D + feature[None, :]
    keys = tl.load(k_pointer + neighbour, mask=inside[:, None], other=0.0)
    values = tl.load(v_pointer + neighbour, mask=inside[:, None], other=0.0)
    bias_pointer += (tl.program_id(2) % heads) * 169
    bias = tl.load(bias_pointer + (row - y + 6) * 13 + column - x + 6, mask=inside, other=0.0)
    scores = tl.where(inside, tl.sum(keys * q[None, :], axis=1) + bias, -float("inf"))
    weights = tl.exp(scores - tl.max(scores, axis=0))
    mean = tl.sum(weights[:, None] * values, axis=0) / tl.sum(weights, axis=0)
    tl.store(o_pointer + (image + y * width + x) * D + feature, mean)


class ModelNew(nn.Module):
    def __init__(self, heads):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(heads, 13, 13))

    def forward(self, q, k, v):
        batch, heads, height, width, features = q.shape
        o = torch.empty_like(q)
        attend[(width, height, batch * heads)](
            q, k, v, self.bias, o, heads, height, width, features**-0.5, D=features, WINDOW=7
        )
        return o
