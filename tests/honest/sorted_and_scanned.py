# task: l1-09
# why: Sorts the row in registers, scans it with an operator of its own, and counts the support: the textbook's algorithm in one kernel.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def add_pairs(left_sum, left_count, right_sum, right_count):
    return left_sum + right_sum, left_count + right_count


@triton.jit
def take_larger(left_value, left_index, right_value, right_index):
    better = (left_value > right_value) | ((left_value == right_value) & (left_index < right_index))
    return tl.where(better, left_value, right_value), tl.where(better, left_index, right_index)


@triton.jit
def project_row(z_pointer, p_pointer, columns, stride: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    z = tl.load(z_pointer + row * stride + column, mask=inside, other=float("-inf"))
    top, first = tl.reduce((z, column), 0, take_larger)
    z = z - top
    ordered = tl.sort(z, descending=True)
    one = tl.full((BLOCK,), 1, tl.int32)
    total, rank = tl.associative_scan((tl.where(ordered > -2.0, ordered, 0.0), one), 0, add_pairs)
    excess = total - 1.0
    support = tl.sum((rank.to(tl.float32) * ordered > excess).to(tl.int32), axis=0)
    tau = tl.sum(tl.where(rank == support, excess, 0.0), axis=0) / support
    p = tl.maximum(z - tau, 0.0)
    if first >= columns:
        return
    tl.store(p_pointer + row * stride + column, p, mask=inside)


class ModelNew(nn.Module):
    def forward(self, z):
        rows, columns = z.shape
        p = torch.empty_like(z)
        project_row[rows,](z, p, columns, stride=z.stride(0), BLOCK=triton.next_power_of_2(columns), num_warps=4)
        return p
