# task: l1-21
# why: One program a cloud with all features in one block; the lowest index by a second reduction.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def pick_points(
    f_pointer, mask_pointer, start_pointer, index_pointer, distance_pointer, N, K, D: tl.constexpr, POINTS: tl.constexpr
):
    cloud = tl.program_id(0)
    point = tl.arange(0, POINTS)
    feature = tl.arange(0, D)
    inside = point < N
    f = tl.load(f_pointer + (cloud * N + point)[:, None] * D + feature[None, :], mask=inside[:, None], other=0.0)
    masked = tl.load(mask_pointer + cloud * N + point, mask=inside, other=1) != 0
    distance = tl.full((POINTS,), float("inf"), tl.float32)
    centre = tl.load(start_pointer + cloud)
    tl.store(index_pointer + cloud * K, centre)
    for step in range(1, K):
        coordinates = tl.load(f_pointer + (cloud * N + centre) * D + feature)
        reached = tl.sum(tl.abs(f - coordinates[None, :]), axis=1)
        distance = tl.where(masked, -1.0, tl.minimum(distance, reached))
        farthest = tl.max(distance, axis=0)
        centre = tl.min(tl.where(distance == farthest, point, POINTS), axis=0).to(tl.int64)
        tl.store(index_pointer + cloud * K + step, centre)
    tl.store(distance_pointer + cloud * N + point, distance, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, samples):
        super().__init__()
        self.samples = samples

    def forward(self, f, mask, start):
        batch, points, features = f.shape
        index = start.new_empty(batch, self.samples)
        distance = f.new_empty(batch, points)
        pick_points[(batch,)](
            f, mask, start, index, distance, points, self.samples, D=features, POINTS=triton.next_power_of_2(points)
        )
        return index, distance
