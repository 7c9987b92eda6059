# task: l2-15
# why: The vocabulary is split over programs that leave maximum, weight and sum; a reduction of triples combines them.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def merge(top, weight, total, other_top, other_weight, other_total):
    larger = tl.maximum(top, other_top)
    return larger, weight * tl.exp(top - larger) + other_weight * tl.exp(other_top - larger), total + other_total


@triton.jit
def cap(x):
    return 60.0 * tl.sigmoid(x / 15.0) - 30.0


@triton.jit
def reduce_part(logits_pointer, parts_pointer, words, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(1)
    part = tl.program_id(0)
    column = part * BLOCK + tl.arange(0, BLOCK)
    inside = column < words
    capped = cap(tl.load(logits_pointer + row.to(tl.int64) * words + column, mask=inside, other=0.0))
    first = tl.where(inside, capped, -1e30)
    top, weight, total = tl.reduce((first, tl.where(inside, 1.0, 0.0), tl.where(inside, capped, 0.0)), 0, merge)
    place = parts_pointer + (row * PARTS + part) * 3
    tl.store(place, top)
    tl.store(place + 1, weight)
    tl.store(place + 2, total)


@triton.jit
def combine(
    logits_pointer, labels_pointer, parts_pointer, loss_pointer, lse_pointer, words, count, PARTS: tl.constexpr
):
    row = tl.program_id(0)
    part = tl.arange(0, PARTS)
    there = part < count
    place = parts_pointer + (row * PARTS + part) * 3
    top = tl.load(place, mask=there, other=-1e30)
    weight = tl.load(place + 1, mask=there, other=0.0)
    total = tl.load(place + 2, mask=there, other=0.0)
    top, weight, total = tl.reduce((top, weight, total), 0, merge)
    lse = top + tl.log(weight)
    label = tl.load(labels_pointer + row)
    target = cap(tl.load(logits_pointer + row.to(tl.int64) * words + tl.maximum(label, 0)))
    loss = lse - 0.9 * target - 0.1 * total / words + 1e-4 * lse * lse
    tl.store(loss_pointer + row, tl.where(label == -100, 0.0, loss))
    tl.store(lse_pointer + row, lse)


class ModelNew(nn.Module):
    def forward(self, logits, labels):
        rows, words = logits.shape
        count = triton.cdiv(words, 1024)
        parts = triton.next_power_of_2(count)
        scratch = logits.new_empty(rows, parts, 3)
        loss, lse = logits.new_empty(rows), logits.new_empty(rows)
        reduce_part[(count, rows)](logits, scratch, words, PARTS=parts, BLOCK=1024)
        combine[(rows,)](logits, labels, scratch, loss, lse, words, count, PARTS=parts)
        return loss, lse
