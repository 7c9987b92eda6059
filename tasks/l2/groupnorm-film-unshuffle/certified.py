"""Group norm, modulation, SiLU and pixel-unshuffle in Triton.

Strategy: statistics and result each read the images, and the batch does not fit in the cache, but one image does.
The batch is therefore processed as a pipeline: each launch measures one image, whose pixels come from memory, and
finishes the image that the launch before has measured, whose pixels still lie in the cache. Even programs measure
and odd ones finish, so reads and writes of memory go on side by side. A program holds part of one channel in
registers; values are taken relative to the first one of their group, which keeps large means exact, and the partial
means and squared deviations are merged when they are read. Neighbouring pixels are split in registers, so both
loads and stores are whole.
"""

import torch
import triton
import triton.language as tl
from torch import nn

GROUPS = 32
EPSILON = 1e-5
LARGEST_PART = 8192


@triton.jit
def measure_part(x_pointer, statistics_pointer, part, PART: tl.constexpr, PARTS: tl.constexpr):
    """Store the mean of a part, relative to the first value of its group, and the sum of squared deviations."""
    origin = tl.load(x_pointer + part // PARTS * PARTS * PART)
    x = tl.load(x_pointer + part * PART + tl.arange(0, PART), eviction_policy="evict_last") - origin
    mean = tl.sum(x, axis=0) / PART
    deviation = x - mean
    tl.store(statistics_pointer + 2 * part, mean)
    tl.store(statistics_pointer + 2 * part + 1, tl.sum(deviation * deviation, axis=0))


@triton.jit
def finish_part(
    x_pointer, scale_pointer, shift_pointer, weight_pointer, bias_pointer, statistics_pointer, y_pointer, part, epsilon,
    H: tl.constexpr, W: tl.constexpr, PART: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    member = part // PARTS * PARTS + tl.arange(0, PARTS)
    means = tl.load(statistics_pointer + 2 * member)
    squares = tl.load(statistics_pointer + 2 * member + 1)
    mean = tl.sum(means, axis=0) / PARTS
    variance = tl.sum(squares + PART * (means - mean) * (means - mean), axis=0) / (PARTS * PART)
    channel = part * PART // (H * W)
    gain = 1.0 + tl.load(scale_pointer + channel)
    slope = tl.load(weight_pointer + channel) * gain / tl.sqrt(variance + epsilon)
    offset = tl.load(bias_pointer + channel) * gain + tl.load(shift_pointer + channel)

    row = tl.arange(0, PART // W)[:, None]
    pixel = tl.arange(0, W)[None, :]
    origin = tl.load(x_pointer + part // PARTS * PARTS * PART)
    x = tl.load(x_pointer + part * PART + row * W + pixel, eviction_policy="evict_first") - origin
    h = (x - mean) * slope + offset
    h = h / (1.0 + tl.exp(-h))
    even, odd = tl.split(tl.reshape(h, (PART // W, W // 2, 2)))
    row += part * PART // W % H
    column = tl.arange(0, W // 2)[None, :]
    plane = H * W // 4
    target = y_pointer + (4 * channel + 2 * (row % 2)) * plane + row // 2 * (W // 2) + column
    tl.store(target, even, eviction_policy="evict_first")
    tl.store(target + plane, odd, eviction_policy="evict_first")


@triton.jit(do_not_specialize=["image"])
def advance(
    x_pointer, scale_pointer, shift_pointer, weight_pointer, bias_pointer, statistics_pointer, y_pointer,
    image, batch, epsilon,
    C: tl.constexpr, H: tl.constexpr, W: tl.constexpr, PART: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    part = tl.program_id(0) // 2
    pixels = C * H * W
    statistics = 2 * pixels // PART
    if tl.program_id(0) % 2 == 0:
        if image < batch:
            measure_part(
                x_pointer + image.to(tl.int64) * pixels, statistics_pointer + image * statistics, part, PART, PARTS
            )
    else:
        image -= 1
        if image >= 0:
            finish_part(
                x_pointer + image.to(tl.int64) * pixels, scale_pointer + image * C, shift_pointer + image * C,
                weight_pointer, bias_pointer, statistics_pointer + image * statistics,
                y_pointer + image.to(tl.int64) * pixels, part, epsilon, H, W, PART, PARTS,
            )  # fmt: skip


class ModelNew(nn.Module):
    """y = pixel_unshuffle(silu(group_norm(x) * (1 + scale) + shift), 2)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(GROUPS, channels, eps=EPSILON)

    def forward(self, x: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
        batch, channels, height, width = x.shape
        # All sizes are powers of two.
        part = min(LARGEST_PART, height * width)
        parts = channels * height * width // part
        y = x.new_empty(batch, 4 * channels, height // 2, width // 2)
        statistics = x.new_empty(batch, parts, 2)
        for image in range(batch + 1):
            advance[(2 * parts,)](
                x, scale, shift, self.norm.weight, self.norm.bias, statistics, y, image, batch, EPSILON,
                C=channels, H=height, W=width, PART=part, PARTS=parts // GROUPS, num_warps=4,
            )  # fmt: skip
        return y
