"""Soft-DTW alignment values in Triton.

Strategy: what limits this is the chain of dependent steps, not the work, so the chain is made short. With
E = exp(-R / g) the recurrence is linear, E[i, j] = w[i, j] (E[i, j-1] + E[i-1, j] + E[i-1, j-1]), and E[n-1, m-1] is
a sum over all paths. One program sums the paths of one matrix from both ends at once, by rows, until the two halves
meet in the middle. Within a row the recurrence runs along the columns only, which one associative scan solves. The
scan also carries everything up to the column before, so that no value ever has to move to its neighbour. All sums
are kept as binary logarithms: the weights themselves would underflow.
"""

import math

import torch
import triton
import triton.language as tl
from torch import nn
from triton.language.extra import libdevice

SMOOTHING = 0.1
SCALE = 1.0 / (SMOOTHING * math.log(2.0))
# The logarithm of a sum without paths: finite, so that differences are defined.
NOTHING = tl.constexpr(-1e30)


@triton.jit
def add_logarithms(a, b):
    # The hardware's logarithm: tl.log2 is a long polynomial in some versions, and this is on the critical path.
    return tl.maximum(a, b) + libdevice.fast_log2f(1.0 + tl.exp2(-tl.abs(a - b)))


@triton.jit
def join_spans(
    weight_1, paths_1, weight_before_1, paths_before_1, weight_2, paths_2, weight_before_2, paths_before_2,
):  # fmt: skip
    """Join two spans of columns: the weight of crossing them, the paths to their end, and both up to the column before."""
    return (
        weight_1 + weight_2,
        add_logarithms(paths_1 + weight_2, paths_2),
        weight_1 + weight_before_2,
        add_logarithms(paths_1 + weight_before_2, paths_before_2),
    )


@triton.jit
def sum_paths(cost_pointer, border_pointer, value_pointer, n, m, scale, COLUMNS: tl.constexpr, STAGES: tl.constexpr):
    matrix = tl.program_id(0)
    border_pointer += matrix * 2 * m
    half = tl.arange(0, 2)[:, None]
    lane = tl.arange(0, COLUMNS)[None, :]
    forward = half == 0
    inside = (lane < m) & (half < 2)
    # The second half sees the matrix turned around.
    first = matrix * n * m + tl.where(forward, lane, n * m - 1 - lane)
    stride = tl.where(forward, m, -m)
    arrivals = tl.where((lane == 0) & (half < 2), 0.0, NOTHING)
    reached = arrivals
    rows = (n + 1) // 2
    for row in tl.range(0, rows, num_stages=STAGES):
        weight = tl.load(cost_pointer + first + row * stride, mask=inside, other=0.0) * -scale
        _, paths, _, before = tl.associative_scan(
            (weight, arrivals + weight, tl.zeros_like(weight), tl.full((2, COLUMNS), NOTHING, tl.float32)),
            1,
            join_spans,
        )
        # Of an odd number of rows the middle one belongs to the first half.
        active = forward | (row < n - rows)
        reached = tl.where(active, paths, reached)
        arrivals = tl.where(active, add_logarithms(paths, before), arrivals)
    tl.store(border_pointer + half * m + lane, tl.where(forward, reached, arrivals), mask=inside)
    tl.debug_barrier()
    column = tl.arange(0, COLUMNS)
    paths = tl.load(border_pointer + column, mask=column < m, other=NOTHING)
    paths += tl.load(border_pointer + 2 * m - 1 - column, mask=column < m, other=NOTHING)
    largest = tl.max(paths, axis=0)
    total = largest + tl.log2(tl.sum(tl.exp2(paths - largest), axis=0))
    tl.store(value_pointer + matrix, total / -scale)


class ModelNew(nn.Module):
    """The soft-minimum, with g = 0.1, over all monotone paths of the summed cost."""

    def forward(self, cost: torch.Tensor) -> torch.Tensor:
        batch, rows, columns = cost.shape
        value = cost.new_empty(batch)
        border = cost.new_empty(batch, 2, columns)
        sum_paths[(batch,)](
            cost, border, value, rows, columns, SCALE,
            COLUMNS=triton.next_power_of_2(columns), STAGES=3, num_warps=4,
        )  # fmt: skip
        return value
