# task: l2-01
# why: One product is left to the library in fp32, as the task allows.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def attend_rows(weights_pointer, x_pointer, result_pointer, S, D: tl.constexpr, BLOCK: tl.constexpr):
    sequence = tl.program_id(1)
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    feature = tl.arange(0, D)
    result = tl.zeros((BLOCK, D), tl.float32)
    for start in range(0, S, BLOCK):
        key = start + tl.arange(0, BLOCK)
        weights = tl.load(weights_pointer + sequence * S * S + row[:, None] * S + key[None, :])
        values = tl.load(x_pointer + sequence * S * D + key[:, None] * D + feature[None, :])
        result = tl.dot(weights, values, result, input_precision="ieee")
    tl.store(result_pointer + sequence * S * D + row[:, None] * D + feature[None, :], result)


@triton.jit
def finish_rows(attended_pointer, bias_pointer, y_pointer, D: tl.constexpr):
    feature = tl.arange(0, D)
    place = tl.program_id(0) * D + feature
    attended = tl.load(attended_pointer + place)
    softplus = tl.maximum(attended, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(attended)))
    energy = -(softplus + tl.load(bias_pointer + feature))
    energy = tl.exp(energy - tl.max(energy, axis=0))
    tl.store(y_pointer + place, energy / tl.sum(energy, axis=0))


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x):
        batch, tokens, features = x.shape
        scores = torch.matmul(x, x.mT)
        weights = torch.softmax(scores * features**-0.5, dim=-1)
        attended = torch.empty_like(x)
        attend_rows[(tokens // 16, batch)](weights, x, attended, tokens, D=features, BLOCK=16, num_stages=1)
        y = torch.empty_like(x)
        finish_rows[(batch * tokens,)](attended, self.bias, y, D=features)
        return y
