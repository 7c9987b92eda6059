# task: l1-01
# why: The grid is a function of the tile size: triton.cdiv of the rows.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def pull_rows(x_pointer, rowptr_pointer, col_pointer, y_pointer, rows, D: tl.constexpr, ROWS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    feature = tl.arange(0, D)
    inside = row < rows
    begin = tl.load(rowptr_pointer + row, mask=inside, other=0)
    degree = tl.load(rowptr_pointer + row + 1, mask=inside, other=0) - begin
    largest = tl.full((ROWS, D), -float("inf"), tl.float32)
    for step in range(0, tl.max(degree, axis=0)):
        active = step < degree
        source = tl.load(col_pointer + begin + step, mask=active, other=0)
        values = tl.load(x_pointer + source[:, None] * D + feature[None, :], mask=active[:, None], other=-float("inf"))
        largest = tl.maximum(largest, values)
    largest = tl.where((degree == 0)[:, None], 0.0, largest)
    tl.store(y_pointer + row[:, None] * D + feature[None, :], largest, mask=inside[:, None])


class ModelNew(nn.Module):
    def forward(self, x, rowptr, col):
        rows, features = x.shape
        y = torch.empty_like(x)
        grid = lambda meta: (triton.cdiv(rows, meta["ROWS"]),)
        pull_rows[grid](x, rowptr, col, y, rows, D=features, ROWS=4)
        return y
