"""Matrix NMS in Triton.

Strategy: only pairs of one class matter, so one program takes all boxes of an image that belong to one class: it counts
them off into a list in scratch memory and then looks at all their pairs, a tile at a time. Nothing has to be sorted:
the place of a box is the number of boxes of the image that are better, and the place also tells which of two boxes is
the better one. The exponential falls as its argument grows, so the largest argument decides and each box needs one
exponential; pairs of different classes, and none at all, give at least 1, which the first box of the order never exceeds.
"""

import torch
import triton
import triton.language as tl
from torch import nn

SIGMA = 2.0
THRESHOLD = 0.05
CLASSES = 80
TILE = 16
SCORES_AT_ONCE = 128


@triton.jit
def load_boxes(boxes_pointer, member, inside):
    corner = boxes_pointer + member * 4
    x1 = tl.load(corner, mask=inside, other=0.0)
    y1 = tl.load(corner + 1, mask=inside, other=0.0)
    x2 = tl.load(corner + 2, mask=inside, other=0.0)
    y2 = tl.load(corner + 3, mask=inside, other=0.0)
    return x1, y1, x2, y2, tl.maximum(x2 - x1, 0.0) * tl.maximum(y2 - y1, 0.0)


@triton.jit
def load_rivals(boxes_pointer, member_pointer, rank_pointer, start, count, TILE: tl.constexpr):
    # A rank beyond all others: what is not there is better than nothing.
    rival = start + tl.arange(0, TILE)
    inside = rival < count
    member = tl.load(member_pointer + rival, mask=inside, other=0)
    x1, y1, x2, y2, area = load_boxes(boxes_pointer, member, inside)
    return x1, y1, x2, y2, area, tl.load(rank_pointer + rival, mask=inside, other=2147483647)


@triton.jit
def compute_overlap(x1, y1, x2, y2, area, rank, rx1, ry1, rx2, ry2, rarea, rrank):
    width = tl.minimum(x2[None, :], rx2[:, None]) - tl.maximum(x1[None, :], rx1[:, None])
    height = tl.minimum(y2[None, :], ry2[:, None]) - tl.maximum(y1[None, :], ry1[:, None])
    shared = tl.maximum(width, 0.0) * tl.maximum(height, 0.0)
    union = area[None, :] + rarea[:, None] - shared
    better = rrank[:, None] < rank[None, :]
    return tl.where(better & (union > 0.0), shared / tl.where(union > 0.0, union, 1.0), 0.0), better


@triton.jit
def list_members(cls_pointer, member_pointer, number, n, BLOCK: tl.constexpr):
    box = tl.arange(0, BLOCK)
    cls = tl.load(cls_pointer + box, mask=box < n, other=2147483647).to(tl.int32)
    mine = cls == number
    first = tl.sum((cls < number).to(tl.int32), axis=0)
    place = first + tl.cumsum(mine.to(tl.int32), axis=0) - 1
    tl.store(member_pointer + place, box, mask=mine)
    return first, tl.sum(mine.to(tl.int32), axis=0)


@triton.jit
def decay_class(
    boxes_pointer, scores_pointer, cls_pointer, member_pointer, rank_pointer, compensation_pointer,
    oscore_pointer, oidx_pointer, n, sigma, threshold,
    BLOCK: tl.constexpr, TILE: tl.constexpr, SCORES: tl.constexpr,
):  # fmt: skip
    image = tl.program_id(1)
    boxes_pointer += image * n * 4
    scores_pointer += image * n
    first, count = list_members(cls_pointer + image * n, member_pointer + image * n, tl.program_id(0), n, BLOCK)
    # Each class has a stretch of its own of the lists.
    member_pointer += image * n + first
    rank_pointer += image * n + first
    compensation_pointer += image * n + first
    tl.debug_barrier()
    for start in range(0, count, TILE):
        own = start + tl.arange(0, TILE)
        inside = own < count
        member = tl.load(member_pointer + own, mask=inside, other=0)
        score = tl.load(scores_pointer + member, mask=inside, other=0.0)
        rank = tl.zeros((TILE,), tl.int32)
        for other in range(0, n, SCORES):
            box = other + tl.arange(0, SCORES)
            rival = tl.load(scores_pointer + box, mask=box < n, other=-1.0)
            equal = rival[:, None] == score[None, :]
            better = (rival[:, None] > score[None, :]) | (equal & (box[:, None] < member[None, :]))
            rank += tl.sum(better.to(tl.int32), axis=0)
        tl.store(rank_pointer + own, rank, mask=inside)
        tl.store(oidx_pointer + image * n + rank, member.to(tl.int64), mask=inside)
    tl.debug_barrier()
    for start in range(0, count, TILE):
        x1, y1, x2, y2, area, rank = load_rivals(boxes_pointer, member_pointer, rank_pointer, start, count, TILE)
        compensation = tl.zeros((TILE,), tl.float32)
        for other in range(0, count, TILE):
            rx1, ry1, rx2, ry2, rarea, rrank = load_rivals(
                boxes_pointer, member_pointer, rank_pointer, other, count, TILE
            )
            overlap, _ = compute_overlap(x1, y1, x2, y2, area, rank, rx1, ry1, rx2, ry2, rarea, rrank)
            compensation = tl.maximum(compensation, tl.max(overlap, axis=0))
        own = start + tl.arange(0, TILE)
        tl.store(compensation_pointer + own, compensation, mask=own < count)
    tl.debug_barrier()
    for start in range(0, count, TILE):
        x1, y1, x2, y2, area, rank = load_rivals(boxes_pointer, member_pointer, rank_pointer, start, count, TILE)
        excess = tl.zeros((TILE,), tl.float32)
        for other in range(0, count, TILE):
            rx1, ry1, rx2, ry2, rarea, rrank = load_rivals(
                boxes_pointer, member_pointer, rank_pointer, other, count, TILE
            )
            overlap, better = compute_overlap(x1, y1, x2, y2, area, rank, rx1, ry1, rx2, ry2, rarea, rrank)
            rival = other + tl.arange(0, TILE)
            compensation = tl.load(compensation_pointer + rival, mask=rival < count, other=0.0)
            gain = tl.where(better, overlap * overlap - (compensation * compensation)[:, None], 0.0)
            excess = tl.maximum(excess, tl.max(gain, axis=0))
        own = start + tl.arange(0, TILE)
        inside = own < count
        member = tl.load(member_pointer + own, mask=inside, other=0)
        score = tl.load(scores_pointer + member, mask=inside, other=0.0)
        decayed = tl.maximum(score * tl.exp(-sigma * excess) - threshold, 0.0)
        tl.store(oscore_pointer + image * n + rank, decayed, mask=inside)


class ModelNew(nn.Module):
    """Boxes in the order of their scores; each score decayed by exp(-sigma (overlap^2 - compensation^2)) at most."""

    def forward(
        self, boxes: torch.Tensor, scores: torch.Tensor, cls: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        batch, n = scores.shape
        oscore = torch.empty_like(scores)
        oidx = torch.empty_like(cls)
        lists = cls.new_empty(2, batch, n, dtype=torch.int32)
        compensation = torch.empty_like(scores)
        decay_class[(CLASSES, batch)](
            boxes, scores, cls, lists[0], lists[1], compensation, oscore, oidx, n, SIGMA, THRESHOLD,
            BLOCK=triton.next_power_of_2(n), TILE=TILE, SCORES=SCORES_AT_ONCE, num_warps=1,
        )  # fmt: skip
        return oscore, oidx
