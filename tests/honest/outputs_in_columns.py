# task: l1-91
# why: Mean and variance are the two columns of one buffer, so that each row writes them side by side.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def standardise_row(x_pointer, statistics_pointer, largest_pointer, z_pointer, columns, epsilon, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    x = tl.load(x_pointer + row * columns + column, mask=inside, other=0.0)
    mean = tl.sum(x, axis=0) / columns
    centred = tl.where(inside, x - mean, 0.0)
    variance = tl.sum(centred * centred, axis=0) / (columns - 1)
    largest = tl.argmax(tl.where(inside, x, -float("inf")), axis=0)
    tl.store(statistics_pointer + 2 * row, mean)
    tl.store(statistics_pointer + 2 * row + 1, variance)
    tl.store(largest_pointer + row, largest)
    tl.store(z_pointer + row * columns + column, centred / tl.sqrt(variance + epsilon), mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        statistics = x.new_empty(rows, 2)
        largest = torch.empty(rows, dtype=torch.int64, device=x.device)
        z = torch.empty_like(x)
        standardise_row[(rows,)](x, statistics, largest, z, columns, 1e-3, BLOCK=triton.next_power_of_2(columns))
        return statistics[:, 0], statistics[:, 1], largest, z
