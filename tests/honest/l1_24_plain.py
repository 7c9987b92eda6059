# task: l1-24
# why: One product at a time, each with its own loads.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def correlate_row(
    left_pointer, right_pointer, volume_pointer, H, W, CHANNELS: tl.constexpr, D: tl.constexpr, BLOCK: tl.constexpr
):
    row = tl.program_id(0)
    group = tl.program_id(1)
    left_pointer += (group * CHANNELS * H + row) * W
    right_pointer += (group * CHANNELS * H + row) * W
    volume_pointer += (group * D * H + row) * W
    x = tl.arange(0, BLOCK)
    for d in range(D):
        total = tl.zeros((BLOCK,), tl.float32)
        for channel in range(CHANNELS):
            left = tl.load(left_pointer + channel * H * W + x, mask=x < W, other=0.0)
            right = tl.load(right_pointer + channel * H * W + x - d, mask=(x < W) & (x >= d), other=0.0)
            total += left * right
        tl.store(volume_pointer + d * H * W + x, total / CHANNELS, mask=x < W)


class ModelNew(nn.Module):
    def __init__(self, groups, disparities):
        super().__init__()
        self.groups, self.disparities = groups, disparities

    def forward(self, left, right):
        batch, channels, height, width = left.shape
        volume = left.new_empty(batch, self.groups, self.disparities, height, width)
        correlate_row[(height, batch * self.groups)](
            left, right, volume, height, width,
            CHANNELS=channels // self.groups, D=self.disparities, BLOCK=triton.next_power_of_2(width),
        )  # fmt: skip
        return volume
