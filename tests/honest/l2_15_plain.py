# task: l2-15
# why: A running maximum, as for logits without a cap.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def reduce_row(logits_pointer, labels_pointer, loss_pointer, lse_pointer, words, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    logits_pointer += row.to(tl.int64) * words
    largest = tl.full((BLOCK,), -30.0, tl.float32)
    weights = tl.zeros((BLOCK,), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, words, BLOCK):
        column = start + tl.arange(0, BLOCK)
        inside = column < words
        logits = tl.load(logits_pointer + column, mask=inside, other=0.0)
        capped = 60.0 * tl.sigmoid(logits / 15.0) - 30.0
        larger = tl.where(inside, tl.maximum(largest, capped), largest)
        weights = weights * tl.exp(largest - larger) + tl.where(inside, tl.exp(capped - larger), 0.0)
        total += tl.where(inside, capped, 0.0)
        largest = larger
    top = tl.max(largest, axis=0)
    lse = top + tl.log(tl.sum(weights * tl.exp(largest - top), axis=0))
    label = tl.load(labels_pointer + row)
    target = 60.0 * tl.sigmoid(tl.load(logits_pointer + tl.maximum(label, 0)) / 15.0) - 30.0
    loss = lse - 0.9 * target - 0.1 * tl.sum(total, axis=0) / words + 1e-4 * lse * lse
    tl.store(loss_pointer + row, tl.where(label == -100, 0.0, loss))
    tl.store(lse_pointer + row, lse)


class ModelNew(nn.Module):
    def forward(self, logits, labels):
        rows, words = logits.shape
        loss, lse = logits.new_empty(rows), logits.new_empty(rows)
        reduce_row[(rows,)](logits, labels, loss, lse, words, BLOCK=1024)
        return loss, lse
