# task: l2-20
# why: The order comes from counting better boxes, stored as int32 ranks; the rest gathers through them in one matrix of overlaps kept in scratch.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def rank(scores_pointer, order_pointer, n, BLOCK: tl.constexpr):
    image = tl.program_id(1)
    box = tl.program_id(0)
    other = tl.arange(0, BLOCK)
    mine = tl.load(scores_pointer + image * n + box)
    theirs = tl.load(scores_pointer + image * n + other, mask=other < n, other=-1.0)
    better = (theirs > mine) | ((theirs == mine) & (other < box))
    place = tl.sum((better & (other < n)).to(tl.int32), axis=0)
    tl.store(order_pointer + image * n + place, box.to(tl.int32))


@triton.jit
def corner(boxes_pointer, image, box, n, part: tl.constexpr, inside):
    return tl.load(boxes_pointer + (image * n + box) * 4 + part, mask=inside, other=0.0)


@triton.jit
def overlap(boxes_pointer, cls_pointer, order_pointer, matrix_pointer, compensation_pointer, n, BLOCK: tl.constexpr):
    image = tl.program_id(1)
    place = tl.program_id(0)
    each = tl.arange(0, BLOCK)
    inside = each < n
    box = tl.load(order_pointer + image * n + place)
    other = tl.load(order_pointer + image * n + each, mask=inside, other=0)
    w = tl.minimum(
        corner(boxes_pointer, image, box, n, 2, True), corner(boxes_pointer, image, other, n, 2, inside)
    ) - tl.maximum(corner(boxes_pointer, image, box, n, 0, True), corner(boxes_pointer, image, other, n, 0, inside))
    h = tl.minimum(
        corner(boxes_pointer, image, box, n, 3, True), corner(boxes_pointer, image, other, n, 3, inside)
    ) - tl.maximum(corner(boxes_pointer, image, box, n, 1, True), corner(boxes_pointer, image, other, n, 1, inside))
    both = tl.maximum(w, 0.0) * tl.maximum(h, 0.0)
    area = tl.maximum(
        corner(boxes_pointer, image, box, n, 2, True) - corner(boxes_pointer, image, box, n, 0, True), 0.0
    ) * tl.maximum(corner(boxes_pointer, image, box, n, 3, True) - corner(boxes_pointer, image, box, n, 1, True), 0.0)
    areas = tl.maximum(
        corner(boxes_pointer, image, other, n, 2, inside) - corner(boxes_pointer, image, other, n, 0, inside), 0.0
    ) * tl.maximum(
        corner(boxes_pointer, image, other, n, 3, inside) - corner(boxes_pointer, image, other, n, 1, inside), 0.0
    )
    union = area + areas - both
    same = tl.load(cls_pointer + image * n + box) == tl.load(cls_pointer + image * n + other, mask=inside, other=-1)
    value = tl.where(same & (each < place) & (union > 0.0), both / tl.where(union > 0.0, union, 1.0), 0.0)
    tl.store(matrix_pointer + (image * n + place) * n + each, value, mask=inside)
    tl.store(compensation_pointer + image * n + place, tl.max(value, axis=0))


@triton.jit
def decay(
    matrix_pointer,
    compensation_pointer,
    scores_pointer,
    order_pointer,
    result_pointer,
    index_pointer,
    n,
    BLOCK: tl.constexpr,
):
    image = tl.program_id(1)
    place = tl.program_id(0)
    each = tl.arange(0, BLOCK)
    value = tl.load(matrix_pointer + (image * n + place) * n + each, mask=each < n, other=0.0)
    other = tl.load(compensation_pointer + image * n + each, mask=each < n, other=0.0)
    factor = tl.min(tl.where(each < place, tl.exp(-2.0 * (value * value - other * other)), 1.0), axis=0)
    box = tl.load(order_pointer + image * n + place)
    tl.store(
        result_pointer + image * n + place, tl.maximum(tl.load(scores_pointer + image * n + box) * factor - 0.05, 0.0)
    )
    tl.store(index_pointer + image * n + place, box.to(tl.int64))


class ModelNew(nn.Module):
    def forward(self, boxes, scores, cls):
        batch, n = scores.shape
        order = torch.empty(batch, n, dtype=torch.int32, device=scores.device)
        matrix = scores.new_empty(batch, n, n)
        compensation, result = torch.empty_like(scores), torch.empty_like(scores)
        index = torch.empty_like(cls)
        block = triton.next_power_of_2(n)
        rank[(n, batch)](scores, order, n, BLOCK=block)
        overlap[(n, batch)](boxes, cls, order, matrix, compensation, n, BLOCK=block)
        decay[(n, batch)](matrix, compensation, scores, order, result, index, n, BLOCK=block)
        return result, index
