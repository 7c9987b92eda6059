# task: l1-91
# why: One allocation holds all outputs of a call: mean and variance are slices of it, the indices a view of its bytes.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def standardise_row(
    x_pointer, mean_pointer, variance_pointer, largest_pointer, z_pointer, columns, epsilon, BLOCK: tl.constexpr
):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    x = tl.load(x_pointer + row * columns + column, mask=inside, other=0.0)
    mean = tl.sum(x, axis=0) / columns
    centred = tl.where(inside, x - mean, 0.0)
    variance = tl.sum(centred * centred, axis=0) / (columns - 1)
    largest = tl.argmax(tl.where(inside, x, -float("inf")), axis=0)
    tl.store(mean_pointer + row, mean)
    tl.store(variance_pointer + row, variance)
    tl.store(largest_pointer + row, largest)
    tl.store(z_pointer + row * columns + column, centred / tl.sqrt(variance + epsilon), mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        # The indices come first, so that they are aligned to eight bytes.
        words = torch.empty(rows * (columns + 4), dtype=torch.float32, device=x.device)
        largest = words[: 2 * rows].view(torch.int64)
        mean, variance = words[2 * rows : 4 * rows].view(2, rows)
        z = words[4 * rows :].view(rows, columns)
        standardise_row[(rows,)](x, mean, variance, largest, z, columns, 1e-3, BLOCK=triton.next_power_of_2(columns))
        return mean, variance, largest, z
