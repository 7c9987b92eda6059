# task: l2-24
# why: Programs add sums and squares in float64 with atomics, and the activation goes over the result in place.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def measure(x_pointer, sums_pointer, size, BLOCK: tl.constexpr):
    group = tl.program_id(1)
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_pointer + group * size + place, mask=place < size, other=0.0).to(tl.float64)
    tl.atomic_add(sums_pointer + group * 2, tl.sum(x, axis=0))
    tl.atomic_add(sums_pointer + group * 2 + 1, tl.sum(x * x, axis=0))


@triton.jit
def finish(
    x_pointer,
    scale_pointer,
    shift_pointer,
    weight_pointer,
    bias_pointer,
    sums_pointer,
    y_pointer,
    channels,
    members,
    size,
    H,
    W,
    BLOCK: tl.constexpr,
):
    plane = tl.program_id(1)
    channel = plane % channels
    mean = tl.load(sums_pointer + plane // members * 2) / size
    variance = tl.load(sums_pointer + plane // members * 2 + 1) / size - mean * mean
    factor = (1.0 / tl.sqrt(variance + 1e-5)).to(tl.float32)
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_pointer + plane * H * W + place, mask=place < H * W)
    h = (x.to(tl.float64) - mean).to(tl.float32) * factor * tl.load(weight_pointer + channel) + tl.load(
        bias_pointer + channel
    )
    h = h * (1.0 + tl.load(scale_pointer + plane)) + tl.load(shift_pointer + plane)
    row = place // W
    column = place % W
    part = plane * 4 + row % 2 * 2 + column % 2
    tl.store(y_pointer + (part * (H // 2) + row // 2) * (W // 2) + column // 2, h, mask=place < H * W)


@triton.jit
def activate(y_pointer, count, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    y = tl.load(y_pointer + place, mask=place < count)
    tl.store(y_pointer + place, y * tl.sigmoid(y), mask=place < count)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.GroupNorm(32, channels)

    def forward(self, x, scale, shift):
        batch, channels, height, width = x.shape
        groups = batch * 32
        size = x.numel() // groups
        sums = torch.zeros(groups, 2, dtype=torch.float64, device=x.device)
        measure[(triton.cdiv(size, 256), groups)](x, sums, size, BLOCK=256)
        y = x.new_empty(batch, 4 * channels, height // 2, width // 2)
        finish[(triton.cdiv(height * width, 1024), batch * channels)](
            x,
            scale,
            shift,
            self.norm.weight,
            self.norm.bias,
            sums,
            y,
            channels,
            channels // 32,
            size,
            height,
            width,
            BLOCK=1024,
        )
        activate[(triton.cdiv(y.numel(), 1024),)](y, y.numel(), BLOCK=1024)
        return y
