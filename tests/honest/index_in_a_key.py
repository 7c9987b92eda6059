# task: l1-91
# why: The order of floats and the index go into one 64-bit key, so that a single maximum finds the first largest entry.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def describe_row(x_pointer, mean_pointer, variance_pointer, largest_pointer, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    x = tl.load(x_pointer + row * columns + column, mask=inside, other=0.0)
    mean = tl.sum(x, axis=0) / columns
    centred = tl.where(inside, x - mean, 0.0)
    tl.store(mean_pointer + row, mean)
    tl.store(variance_pointer + row, tl.sum(centred * centred, axis=0) / (columns - 1))
    # Bits of negative floats are turned round, so that integers compare as the floats do; -0.0 becomes 0.0 first.
    bits = (x + 0.0).to(tl.int32, bitcast=True)
    bits = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    key = (bits.to(tl.int64) << 32) | (BLOCK - column).to(tl.int64)
    key = tl.max(tl.where(inside, key, -0x7FFFFFFFFFFFFFFF), axis=0)
    tl.store(largest_pointer + row, BLOCK - (key & 0xFFFFFFFF))


@triton.jit
def standardise_rows(
    x_pointer, mean_pointer, variance_pointer, z_pointer, count, columns, epsilon, BLOCK: tl.constexpr
):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < count
    row = place // columns
    mean = tl.load(mean_pointer + row, mask=inside)
    variance = tl.load(variance_pointer + row, mask=inside)
    x = tl.load(x_pointer + place, mask=inside)
    tl.store(z_pointer + place, (x - mean) / tl.sqrt(variance + epsilon), mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        mean, variance = x.new_empty(2, rows).unbind(0)
        largest = torch.empty(rows, dtype=torch.long, device=x.device)
        describe_row[(rows,)](x, mean, variance, largest, columns, BLOCK=triton.next_power_of_2(columns))
        z = torch.empty_like(x)
        standardise_rows[(triton.cdiv(x.numel(), 512),)](x, mean, variance, z, x.numel(), columns, 1e-3, BLOCK=512)
        return [mean, variance, largest, z]
