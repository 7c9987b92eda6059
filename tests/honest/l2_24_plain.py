# task: l2-24
# why: One kernel measures each group in two passes, another finishes each channel.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def measure_group(x_pointer, mean_pointer, factor_pointer, size, BLOCK: tl.constexpr):
    group = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, size, BLOCK):
        place = start + tl.arange(0, BLOCK)
        total += tl.load(x_pointer + group * size + place, mask=place < size, other=0.0)
    mean = tl.sum(total, axis=0) / size
    squares = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, size, BLOCK):
        place = start + tl.arange(0, BLOCK)
        x = tl.load(x_pointer + group * size + place, mask=place < size, other=0.0)
        squares += tl.where(place < size, (x - mean) * (x - mean), 0.0)
    tl.store(mean_pointer + group, mean)
    tl.store(factor_pointer + group, 1.0 / tl.sqrt(tl.sum(squares, axis=0) / size + 1e-5))


@triton.jit
def finish_plane(
    x_pointer, scale_pointer, shift_pointer, weight_pointer, bias_pointer, mean_pointer, factor_pointer, y_pointer,
    channels, members, H, W, BLOCK: tl.constexpr,
):  # fmt: skip
    plane = tl.program_id(1)
    channel = plane % channels
    mean = tl.load(mean_pointer + plane // members)
    factor = tl.load(factor_pointer + plane // members)
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_pointer + plane * H * W + place, mask=place < H * W)
    h = (x - mean) * factor * tl.load(weight_pointer + channel) + tl.load(bias_pointer + channel)
    h = h * (1.0 + tl.load(scale_pointer + plane)) + tl.load(shift_pointer + plane)
    h = h * tl.sigmoid(h)
    row = place // W
    column = place % W
    part = plane * 4 + row % 2 * 2 + column % 2
    target = (part * (H // 2) + row // 2) * (W // 2) + column // 2
    tl.store(y_pointer + target, h, mask=place < H * W)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.GroupNorm(32, channels)

    def forward(self, x, scale, shift):
        batch, channels, height, width = x.shape
        groups = batch * 32
        size = x.numel() // groups
        mean, factor = x.new_empty(groups), x.new_empty(groups)
        measure_group[(groups,)](x, mean, factor, size, BLOCK=1024)
        y = x.new_empty(batch, 4 * channels, height // 2, width // 2)
        finish_plane[(triton.cdiv(height * width, 1024), batch * channels)](
            x, scale, shift, self.norm.weight, self.norm.bias, mean, factor, y,
            channels, channels // 32, height, width, BLOCK=1024,
        )  # fmt: skip
        return y
