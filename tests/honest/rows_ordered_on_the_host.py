# task: l1-01
# why: The host reads the row pointers and uploads the order of the rows, so that long rows start first.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def pull_rows(x_pointer, rowptr_pointer, col_pointer, order_pointer, y_pointer, D: tl.constexpr):
    row = tl.load(order_pointer + tl.program_id(0))
    feature = tl.arange(0, D)
    begin = tl.load(rowptr_pointer + row)
    end = tl.load(rowptr_pointer + row + 1)
    largest = tl.full((D,), -float("inf"), tl.float32)
    for edge in range(begin, end):
        source = tl.load(col_pointer + edge)
        largest = tl.maximum(largest, tl.load(x_pointer + source * D + feature))
    tl.store(y_pointer + row * D + feature, tl.where(begin == end, 0.0, largest))


class ModelNew(nn.Module):
    def forward(self, x, rowptr, col):
        order = rowptr.cpu().diff().argsort(descending=True).to(x.device)
        y = torch.empty_like(x)
        pull_rows[(len(x),)](x, rowptr, col, order, y, D=x.shape[1])
        return y
