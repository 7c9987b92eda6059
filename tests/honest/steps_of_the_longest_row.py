# task: l1-01
# why: The longest row of each graph decides how many steps the kernel is compiled for, so nearly every graph has a kernel of its own.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def pull_rows(x_pointer, rowptr_pointer, col_pointer, y_pointer, D: tl.constexpr, STEPS: tl.constexpr):
    row = tl.program_id(0)
    feature = tl.arange(0, D)
    begin = tl.load(rowptr_pointer + row)
    end = tl.load(rowptr_pointer + row + 1)
    largest = tl.full((D,), float("-inf"), tl.float32)
    for step in range(STEPS):
        edge = begin + step * 8 + tl.arange(0, 8)
        source = tl.load(col_pointer + edge, mask=edge < end, other=0)
        place = source[:, None] * D + feature[None, :]
        message = tl.load(x_pointer + place, mask=(edge < end)[:, None], other=float("-inf"))
        largest = tl.maximum(largest, tl.max(message, axis=0))
    tl.store(y_pointer + row * D + feature, tl.where(begin == end, 0.0, largest))


class ModelNew(nn.Module):
    def forward(self, x, rowptr, col):
        rows, width = x.shape
        steps = triton.cdiv(int(rowptr.diff().max()), 8)
        y = torch.empty_like(x)
        pull_rows[(rows,)](x, rowptr, col, y, D=width, STEPS=steps, num_warps=1)
        return y
