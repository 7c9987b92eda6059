# task: l2-20
# why: The library sorts; one program a box goes over all boxes of its image, twice.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def overlap_with_others(boxes_pointer, cls_pointer, image, box, n, BLOCK: tl.constexpr):
    other = tl.arange(0, BLOCK)
    inside = other < n
    mine = boxes_pointer + (image * n + box) * 4
    theirs = boxes_pointer + (image * n + other) * 4
    x1, y1 = tl.load(mine), tl.load(mine + 1)
    x2, y2 = tl.load(mine + 2), tl.load(mine + 3)
    ox1, oy1 = tl.load(theirs, mask=inside, other=0.0), tl.load(theirs + 1, mask=inside, other=0.0)
    ox2, oy2 = tl.load(theirs + 2, mask=inside, other=0.0), tl.load(theirs + 3, mask=inside, other=0.0)
    width = tl.maximum(tl.minimum(x2, ox2) - tl.maximum(x1, ox1), 0.0)
    height = tl.maximum(tl.minimum(y2, oy2) - tl.maximum(y1, oy1), 0.0)
    area = tl.maximum(x2 - x1, 0.0) * tl.maximum(y2 - y1, 0.0)
    other_area = tl.maximum(ox2 - ox1, 0.0) * tl.maximum(oy2 - oy1, 0.0)
    union = area + other_area - width * height
    same = tl.load(cls_pointer + image * n + other, mask=inside, other=-1) == tl.load(cls_pointer + image * n + box)
    better = other < box
    return tl.where(better & same & (union > 0.0), width * height / tl.where(union > 0.0, union, 1.0), 0.0)


@triton.jit
def compensate(boxes_pointer, cls_pointer, compensation_pointer, n, BLOCK: tl.constexpr):
    box = tl.program_id(0)
    image = tl.program_id(1)
    overlap = overlap_with_others(boxes_pointer, cls_pointer, image, box, n, BLOCK)
    tl.store(compensation_pointer + image * n + box, tl.max(overlap, axis=0))


@triton.jit
def decay(boxes_pointer, cls_pointer, scores_pointer, compensation_pointer, result_pointer, n, BLOCK: tl.constexpr):
    box = tl.program_id(0)
    image = tl.program_id(1)
    other = tl.arange(0, BLOCK)
    overlap = overlap_with_others(boxes_pointer, cls_pointer, image, box, n, BLOCK)
    compensation = tl.load(compensation_pointer + image * n + other, mask=other < n, other=0.0)
    factor = tl.exp(-2.0 * (overlap * overlap - compensation * compensation))
    factor = tl.min(tl.where(other < box, factor, 1.0), axis=0)
    score = tl.load(scores_pointer + image * n + box)
    tl.store(result_pointer + image * n + box, tl.maximum(score * factor - 0.05, 0.0))


class ModelNew(nn.Module):
    def forward(self, boxes, scores, cls):
        batch, n = scores.shape
        ordered, index = scores.sort(dim=-1, descending=True, stable=True)
        boxes = boxes.gather(1, index.unsqueeze(-1).expand(-1, -1, 4))
        cls = cls.gather(1, index)
        compensation = torch.empty_like(scores)
        result = torch.empty_like(scores)
        block = triton.next_power_of_2(n)
        compensate[(n, batch)](boxes, cls, compensation, n, BLOCK=block)
        decay[(n, batch)](boxes, cls, ordered, compensation, result, n, BLOCK=block)
        return result, index
