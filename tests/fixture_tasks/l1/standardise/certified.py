# mypy: ignore-errors
"""Mean, variance, argmax and standardised rows in Triton.

Strategy: one program holds one row in registers, so the matrix is read once and written once. The variance is
the sum of squared differences from the mean, taken in a second pass over the registers. The first largest entry
is found by a reduction of pairs that prefers the smaller index where values are equal.
"""

import torch
import triton
import triton.language as tl
from torch import nn

EPSILON = 1e-3


@triton.jit
def standardise_row(
    x_pointer, mean_pointer, variance_pointer, largest_pointer, z_pointer, columns, epsilon, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    x = tl.load(x_pointer + row * columns + column, mask=inside, other=0.0)
    mean = tl.sum(x, axis=0) / columns
    centred = tl.where(inside, x - mean, 0.0)
    variance = tl.sum(centred * centred, axis=0) / (columns - 1)
    largest = tl.argmax(tl.where(inside, x, -float("inf")), axis=0, tie_break_left=True)
    tl.store(mean_pointer + row, mean)
    tl.store(variance_pointer + row, variance)
    tl.store(largest_pointer + row, largest.to(tl.int64))
    tl.store(z_pointer + row * columns + column, centred / tl.sqrt(variance + epsilon), mask=inside)


class ModelNew(nn.Module):
    """Returns (mean, variance, largest, z) of each row; `largest` is the first index of the row's maximum."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        rows, columns = x.shape
        mean, variance = x.new_empty(rows), x.new_empty(rows)
        largest = torch.empty(rows, dtype=torch.int64, device=x.device)
        z = torch.empty_like(x)
        block = triton.next_power_of_2(columns)
        standardise_row[(rows,)](
            x, mean, variance, largest, z, columns, EPSILON, BLOCK=block, num_warps=max(1, min(16, block // 512))
        )
        return mean, variance, largest, z
