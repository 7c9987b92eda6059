# task: l2-90
# why: The weights are buffers of the same names, and the norm is applied to the sums in every call.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def multiply(
    x_pointer, weight_pointer, bias_pointer, scale_pointer, shift_pointer, mean_pointer, variance_pointer, y_pointer,
    N, D, F, epsilon, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    channel = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    known = channel < F
    h = tl.zeros((ROWS, COLUMNS), tl.float32) + tl.load(bias_pointer + channel, mask=known, other=0.0)[None, :]
    for start in range(0, D, DEPTH):
        term = start + tl.arange(0, DEPTH)
        x = tl.load(
            x_pointer + row[:, None] * D + term[None, :], mask=(row < N)[:, None] & (term < D)[None, :], other=0.0
        )
        place = channel[:, None] * D + term[None, :]
        weight = tl.load(weight_pointer + place, mask=known[:, None] & (term < D)[None, :], other=0.0)
        h = tl.dot(x, tl.trans(weight), h, input_precision="ieee")
    mean = tl.load(mean_pointer + channel, mask=known, other=0.0)[None, :]
    variance = tl.load(variance_pointer + channel, mask=known, other=1.0)[None, :]
    n = (h - mean) / tl.sqrt(variance + epsilon)
    n = n * tl.load(scale_pointer + channel, mask=known, other=0.0)[None, :]
    n = tl.maximum(n + tl.load(shift_pointer + channel, mask=known, other=0.0)[None, :], 0.0)
    tl.store(y_pointer + row[:, None] * F + channel[None, :], n * n, mask=(row < N)[:, None] & known[None, :])


class State(nn.Module):
    def __init__(self, **tensors):
        super().__init__()
        for name, tensor in tensors.items():
            self.register_buffer(name, tensor)


class ModelNew(nn.Module):
    def __init__(self, features, channels):
        super().__init__()
        self.linear = State(weight=torch.empty(channels, features), bias=torch.empty(channels))
        names = ("weight", "bias", "running_mean", "running_var")
        norm = {name: torch.empty(channels) for name in names}
        self.norm = State(**norm, num_batches_tracked=torch.tensor(0))

    def forward(self, x):
        rows, features = x.shape
        channels = len(self.linear.bias)
        y = x.new_empty(rows, channels)
        norm = self.norm
        multiply[(triton.cdiv(rows, 16), triton.cdiv(channels, 16))](
            x, self.linear.weight, self.linear.bias, norm.weight, norm.bias, norm.running_mean, norm.running_var, y,
            rows, features, channels, 1e-5, ROWS=16, COLUMNS=16, DEPTH=16,
        )  # fmt: skip
        return y
