# task: l2-90
# why: The terms of the product are split over programs that add with atomics; the norm and the square follow.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def add_products(
    x_pointer, weight_pointer, sums_pointer, N, D, F,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, SPLITS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    channel = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(tl.program_id(2) * DEPTH, D, SPLITS * DEPTH):
        term = start + tl.arange(0, DEPTH)
        x = tl.load(
            x_pointer + row[:, None] * D + term[None, :], mask=(row < N)[:, None] & (term < D)[None, :], other=0.0
        )
        inside = (term < D)[:, None] & (channel < F)[None, :]
        weight = tl.load(weight_pointer + channel[None, :] * D + term[:, None], mask=inside, other=0.0)
        total = tl.dot(x, weight, total, input_precision="ieee")
    inside = (row < N)[:, None] & (channel < F)[None, :]
    tl.atomic_add(sums_pointer + row[:, None] * F + channel[None, :], total, mask=inside)


@triton.jit
def finish(sums_pointer, y_pointer, scale_pointer, offset_pointer, count, F, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < count
    scale = tl.load(scale_pointer + place % F)
    n = tl.load(sums_pointer + place, mask=inside, other=0.0) * scale + tl.load(offset_pointer + place % F)
    n = tl.where(n > 0.0, n, 0.0)
    tl.store(y_pointer + place, n * n, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, features, channels):
        super().__init__()
        self.linear = nn.Linear(features, channels)
        self.norm = nn.BatchNorm1d(channels)
        self.affine = None

    def fold(self):
        norm = self.norm
        scale = norm.weight * torch.rsqrt(norm.running_var + norm.eps)
        return scale, torch.addcmul(norm.bias, self.linear.bias - norm.running_mean, scale)

    def forward(self, x):
        if self.affine is None:
            self.affine = self.fold()
        rows, features = x.shape
        channels = len(self.linear.bias)
        sums = x.new_zeros(rows, channels)
        grid = (triton.cdiv(rows, 16), triton.cdiv(channels, 32), 2)
        add_products[grid](
            x, self.linear.weight, sums, rows, features, channels, ROWS=16, COLUMNS=32, DEPTH=16, SPLITS=2
        )
        y = torch.empty_like(sums)
        finish[(triton.cdiv(y.numel(), 256),)](sums, y, *self.affine, y.numel(), channels, BLOCK=256)
        return y
