# task: l1-17
# why: Both directions in one pass of tiles: distances are never negative, so their bits are ordered, and integer atomics find the minima in memory that is returned as floats.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def compare(x_pointer, y_pointer, first_pointer, second_pointer, N, M, BLOCK: tl.constexpr):
    cloud = tl.program_id(2)
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    there = (row < N)[:, None] & (column < M)[None, :]
    distance = tl.zeros((BLOCK, BLOCK), tl.float32)
    for axis in tl.static_range(3):
        x = tl.load(x_pointer + (cloud * N + row) * 3 + axis, mask=row < N, other=0.0)
        y = tl.load(y_pointer + (cloud * M + column) * 3 + axis, mask=column < M, other=0.0)
        difference = x[:, None] - y[None, :]
        distance += difference * difference
    bits = tl.where(there, distance, float("inf")).to(tl.int32, bitcast=True)
    tl.atomic_min(first_pointer + cloud * N + row, tl.min(bits, axis=1), mask=row < N)
    tl.atomic_min(second_pointer + cloud * M + column, tl.min(bits, axis=0), mask=column < M)


class ModelNew(nn.Module):
    def forward(self, x, y):
        batch, rows, columns = x.shape[0], x.shape[1], y.shape[1]
        first = torch.full((batch, rows), 0x7F800000, dtype=torch.int32, device=x.device)
        second = torch.full((batch, columns), 0x7F800000, dtype=torch.int32, device=x.device)
        compare[(triton.cdiv(rows, 32), triton.cdiv(columns, 32), batch)](x, y, first, second, rows, columns, BLOCK=32)
        return first.view(torch.float32), second.view(torch.float32)
