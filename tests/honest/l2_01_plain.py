# task: l2-01
# why: The plain way: one kernel with a running maximum over blocks of keys, all 512 features in its accumulator.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def attend(x_pointer, bias_pointer, y_pointer, S, scale, D: tl.constexpr, BLOCK: tl.constexpr):
    sequence = tl.program_id(1).to(tl.int64) * S * D
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    feature = tl.arange(0, D)
    queries = tl.load(x_pointer + sequence + row[:, None] * D + feature[None, :])
    top = tl.full((BLOCK,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    attended = tl.zeros((BLOCK, D), tl.float32)
    for start in range(0, S, BLOCK):
        key = start + tl.arange(0, BLOCK)
        keys = tl.load(x_pointer + sequence + key[:, None] * D + feature[None, :])
        scores = tl.dot(queries, tl.trans(keys), input_precision="ieee") * scale
        higher = tl.maximum(top, tl.max(scores, axis=1))
        shrink = tl.exp(top - higher)
        weights = tl.exp(scores - higher[:, None])
        total = total * shrink + tl.sum(weights, axis=1)
        attended = tl.dot(weights, keys, attended * shrink[:, None], input_precision="ieee")
        top = higher
    attended = attended / total[:, None]
    softplus = tl.maximum(attended, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(attended)))
    energy = -(softplus + tl.load(bias_pointer + feature)[None, :])
    energy = tl.exp(energy - tl.max(energy, axis=1)[:, None])
    y = energy / tl.sum(energy, axis=1)[:, None]
    tl.store(y_pointer + sequence + row[:, None] * D + feature[None, :], y)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x):
        batch, tokens, features = x.shape
        y = torch.empty_like(x)
        attend[(tokens // 16, batch)](x, self.bias, y, tokens, features**-0.5, D=features, BLOCK=16)
        return y
