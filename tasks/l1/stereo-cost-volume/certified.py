"""Group-wise correlation cost volume in Triton.

Strategy: one program takes one image row of one group, so both rows of features are read once from memory and every
value of the volume is written once. The arithmetic is small, but a plain kernel loads one value of the right view
for each multiplication, and shifted loads are not aligned. Here positions are cut into quads and disparities into
octets. Three aligned quads of the right view, at distances 0, 4 and 8, hold what a quad of the left view needs for
eight disparities: four 16-byte loads serve 32 multiplications. The quads that start between them are put together in
registers.
"""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def split_quads(quads, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    even, odd = tl.split(tl.reshape(quads, (ROWS, COLUMNS, 2, 2)))
    first, third = tl.split(even)
    second, fourth = tl.split(odd)
    return first, second, third, fourth


@triton.jit
def join_quads(first, second, third, fourth, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    return tl.reshape(tl.join(tl.join(first, third), tl.join(second, fourth)), (ROWS, COLUMNS, 4))


@triton.jit
def delay_quads(near, far, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Return the quads that start one, two and three places before those of `near`; `far` ends where `near` starts."""
    n0, n1, n2, _ = split_quads(near, ROWS, COLUMNS)
    _, f1, f2, f3 = split_quads(far, ROWS, COLUMNS)
    return (
        join_quads(f3, n0, n1, n2, ROWS, COLUMNS),
        join_quads(f2, f3, n0, n1, ROWS, COLUMNS),
        join_quads(f1, f2, f3, n0, ROWS, COLUMNS),
    )


@triton.jit
def correlate_row(
    left_pointer, right_pointer, volume_pointer, H, W, scale,
    CHANNELS: tl.constexpr, D: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    group = tl.program_id(1)
    plane = H * W
    left_pointer += group * CHANNELS * plane + row * W
    right_pointer += group * CHANNELS * plane + row * W
    volume_pointer += group.to(tl.int64) * D * plane + row * W
    column = tl.arange(0, COLUMNS)[None, :, None]
    within = tl.arange(0, 4)[None, None, :]
    for first in tl.static_range(0, D // 8, ROWS):
        octet = first + tl.arange(0, ROWS)[:, None, None]
        inside = (4 * column < W) & (8 * octet < D)
        # One sum for each of the eight disparities of an octet.
        s0 = tl.zeros((ROWS, COLUMNS, 4), tl.float32)
        s1, s2, s3, s4, s5, s6, s7 = s0, s0, s0, s0, s0, s0, s0
        place = 4 * column + within
        for channel in range(CHANNELS):
            left = tl.load(left_pointer + channel * plane + place + 0 * octet, mask=inside, other=0.0)
            right = right_pointer + channel * plane + place - 8 * octet
            near = tl.load(right, mask=inside & (column >= 2 * octet), other=0.0)
            middle = tl.load(right - 4, mask=inside & (column > 2 * octet), other=0.0)
            far = tl.load(right - 8, mask=inside & (column > 2 * octet + 1), other=0.0)
            near1, near2, near3 = delay_quads(near, middle, ROWS, COLUMNS)
            middle1, middle2, middle3 = delay_quads(middle, far, ROWS, COLUMNS)
            s0, s1, s2, s3 = s0 + left * near, s1 + left * near1, s2 + left * near2, s3 + left * near3
            s4, s5, s6, s7 = s4 + left * middle, s5 + left * middle1, s6 + left * middle2, s7 + left * middle3
        volume = volume_pointer + 8 * octet * plane + place
        tl.store(volume, s0 * scale, mask=inside)
        tl.store(volume + plane, s1 * scale, mask=inside)
        tl.store(volume + 2 * plane, s2 * scale, mask=inside)
        tl.store(volume + 3 * plane, s3 * scale, mask=inside)
        tl.store(volume + 4 * plane, s4 * scale, mask=inside)
        tl.store(volume + 5 * plane, s5 * scale, mask=inside)
        tl.store(volume + 6 * plane, s6 * scale, mask=inside)
        tl.store(volume + 7 * plane, s7 * scale, mask=inside)


class ModelNew(nn.Module):
    """volume[b, g, d, y, x] = mean over the channels c of group g of left[b, c, y, x] * right[b, c, y, x - d]."""

    def __init__(self, groups: int, disparities: int) -> None:
        super().__init__()
        self.groups, self.disparities = groups, disparities

    def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        batch, channels, height, width = left.shape
        # Quads and octets are whole: the width is a multiple of four, the number of disparities one of eight.
        volume = left.new_empty(batch, self.groups, self.disparities, height, width)
        channels //= self.groups
        correlate_row[(height, batch * self.groups)](
            left, right, volume, height, width, 1.0 / channels,
            CHANNELS=channels, D=self.disparities, ROWS=2,
            COLUMNS=triton.next_power_of_2(width // 4), num_warps=4,
        )  # fmt: skip
        return volume
