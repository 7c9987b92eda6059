# task: l2-01
# why: A kernel does the attention, and the library applies softplus and softmin to its result, three passes over it.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def attend(x_pointer, y_pointer, S, scale, D: tl.constexpr, BLOCK: tl.constexpr):
    sequence = tl.program_id(1) * S * D
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    feature = tl.arange(0, D)
    queries = tl.load(x_pointer + sequence + row[:, None] * D + feature[None, :])
    maximum = tl.full((BLOCK,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    attended = tl.zeros((BLOCK, D), tl.float32)
    for start in range(0, S, BLOCK):
        key = start + tl.arange(0, BLOCK)
        keys = tl.load(x_pointer + sequence + key[:, None] * D + feature[None, :])
        scores = tl.dot(queries, tl.trans(keys), input_precision="ieee") * scale
        larger = tl.maximum(maximum, tl.max(scores, axis=1))
        shrink = tl.exp(maximum - larger)
        weights = tl.exp(scores - larger[:, None])
        total = total * shrink + tl.sum(weights, axis=1)
        attended = tl.dot(weights, keys, attended * shrink[:, None], input_precision="ieee")
        maximum = larger
    attended = attended / total[:, None]
    tl.store(y_pointer + sequence + row[:, None] * D + feature[None, :], attended)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x):
        batch, tokens, features = x.shape
        y = torch.empty_like(x)
        attend[(tokens // 16, batch)](x, y, tokens, features**-0.5, D=features, BLOCK=16, num_stages=1)
        return nn.functional.softmin(nn.functional.softplus(y) + self.bias, dim=-1)
