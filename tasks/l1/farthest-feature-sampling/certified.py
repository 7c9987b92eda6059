"""Greedy farthest point sampling in feature space in Triton.

Strategy: the picks of one cloud depend on each other, so one program makes them all, without leaving the chip. The
features do not fit into registers: three quarters of them stay there, and the last quarter is read again for every
pick, which the L1 cache serves. For that a first kernel turns each cloud around, so that a thread owns whole points,
adds up their differences without a shuffle, and neighbouring threads read neighbouring words. One reduction a pick
finds the farthest point: the bit pattern of a distance, which is ordered like an integer, lies above the place counted
from the end, so that the greatest key is the greatest distance at the lowest place.
"""

import torch
import triton
import triton.language as tl
from torch import nn

BLOCK = 64


@triton.jit
def turn_features(f_pointer, turned_pointer, N, D: tl.constexpr, POINTS: tl.constexpr, BLOCK: tl.constexpr):
    cloud = tl.program_id(1)
    point = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    feature = tl.arange(0, D)
    place = (cloud * N + point)[:, None] * D + feature[None, :]
    tile = tl.load(f_pointer + place, mask=(point < N)[:, None], other=0.0)
    tl.store(turned_pointer + (cloud * D + feature)[:, None] * POINTS + point[None, :], tl.trans(tile))


@triton.jit
def load_features(turned_pointer, feature, POINTS: tl.constexpr):
    return tl.load(turned_pointer + feature[:, None] * POINTS + tl.arange(0, POINTS)[None, :])


@triton.jit
def sum_differences(features, turned_pointer, feature, centre, POINTS: tl.constexpr):
    coordinates = tl.load(turned_pointer + feature * POINTS + centre)
    return tl.sum(tl.abs(features - coordinates[:, None]), axis=0)


@triton.jit
def pick_points(
    turned_pointer, mask_pointer, start_pointer, index_pointer, distance_pointer, N, K,
    D: tl.constexpr, POINTS: tl.constexpr,
):  # fmt: skip
    cloud = tl.program_id(0)
    turned_pointer += cloud * D * POINTS
    point = tl.arange(0, POINTS)
    low = tl.arange(0, D // 2)
    middle = D // 2 + tl.arange(0, D // 4)
    high = D // 2 + D // 4 + tl.arange(0, D // 4)
    kept_low = load_features(turned_pointer, low, POINTS)
    kept_middle = load_features(turned_pointer, middle, POINTS)
    masked = tl.load(mask_pointer + cloud * N + point, mask=point < N, other=1) != 0
    # A masked point, or one past the end, stays at -1, below every other.
    distance = tl.where(masked, -1.0, float("inf"))
    centre = tl.load(start_pointer + cloud)
    tl.store(index_pointer + cloud * K, centre)
    for pick in range(1, K):
        reached = sum_differences(kept_low, turned_pointer, low, centre, POINTS)
        reached += sum_differences(kept_middle, turned_pointer, middle, centre, POINTS)
        read_again = load_features(turned_pointer, high, POINTS)
        reached += sum_differences(read_again, turned_pointer, high, centre, POINTS)
        distance = tl.minimum(distance, reached)
        key = (distance.to(tl.int32, bitcast=True).to(tl.int64) << 32) | (POINTS - 1 - point)
        centre = POINTS - 1 - (tl.max(key, axis=0) & 0xFFFFFFFF)
        tl.store(index_pointer + cloud * K + pick, centre)
    tl.store(distance_pointer + cloud * N + point, distance, mask=point < N)


class ModelNew(nn.Module):
    """Picks the point farthest from all picks so far, by the sum of absolute differences, until there are enough."""

    def __init__(self, samples: int) -> None:
        super().__init__()
        self.samples = samples

    def forward(self, f: torch.Tensor, mask: torch.Tensor, start: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        batch, points, features = f.shape
        padded = max(BLOCK, triton.next_power_of_2(points))
        turned = f.new_empty(batch, features, padded)
        index = start.new_empty(batch, self.samples)
        distance = f.new_empty(batch, points)
        turn_features[(padded // BLOCK, batch)](f, turned, points, D=features, POINTS=padded, BLOCK=BLOCK)
        pick_points[(batch,)](
            turned, mask, start, index, distance, points, self.samples, D=features, POINTS=padded, num_warps=8
        )
        return index, distance
