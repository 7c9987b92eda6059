# task: l1-91
# why: A torch.library operator with four results, of two dtypes, holds the launch.
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


@torch.library.custom_op("mine::standardise", mutates_args=())
def standardise(x: torch.Tensor, epsilon: float) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    rows, columns = x.shape
    mean, variance, z = x.new_empty(rows), x.new_empty(rows), torch.empty_like(x)
    largest = torch.empty(rows, dtype=torch.int64, device=x.device)
    standardise_row[(rows,)](x, mean, variance, largest, z, columns, epsilon, BLOCK=triton.next_power_of_2(columns))
    return mean, variance, largest, z


@standardise.register_fake
def _(x, epsilon):
    return x.new_empty(len(x)), x.new_empty(len(x)), x.new_empty(len(x), dtype=torch.int64), torch.empty_like(x)


class ModelNew(nn.Module):
    def forward(self, x):
        return standardise(x, 1e-3)
