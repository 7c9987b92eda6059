"""A matrix plus another one whose columns are scaled, in Triton.

Strategy: the work is bound by memory, so everything is read once and written once. A program takes a block of
columns of several rows, and so reads their factors once for all of them.
"""

import torch
import triton
import triton.language as tl
from torch import nn

COLUMNS_AT_ONCE = 1024
ROWS_AT_ONCE = 8


@triton.jit
def add_scaled(x_pointer, z_pointer, scale_pointer, y_pointer, rows, columns, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    first = tl.program_id(1).to(tl.int64) * ROWS
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = column < columns
    scale = tl.load(scale_pointer + column, mask=inside)
    for step in tl.static_range(ROWS):
        row = first + step
        mask = inside & (row < rows)
        place = row * columns + column
        x = tl.load(x_pointer + place, mask=mask)
        z = tl.load(z_pointer + place, mask=mask)
        tl.store(y_pointer + place, x + scale * z, mask=mask)


class ModelNew(nn.Module):
    """y = x + scale * z, with one factor a column."""

    def __init__(self, columns: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.randn(columns))

    def forward(self, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        rows, columns = x.shape
        y = torch.empty_like(x)
        block = min(COLUMNS_AT_ONCE, triton.next_power_of_2(columns))
        grid = (triton.cdiv(columns, block), triton.cdiv(rows, ROWS_AT_ONCE))
        add_scaled[grid](x, z, self.scale, y, rows, columns, ROWS=ROWS_AT_ONCE, BLOCK=block)
        return y
