# task: l1-09
# why: Reshapes, joins, splits, transposes and interleaves in registers, nested helpers in static ranges, and a persistent loop.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def halve(values, SIZE: tl.constexpr):
    pairs = tl.reshape(values, (SIZE // 2, 2))
    return tl.split(pairs)


@triton.jit
def sum_all(values):
    return tl.sum(tl.ravel(values), axis=0)


@triton.jit
def count_above(even, odd, tau):
    return sum_all((even > tau).to(tl.int32)) + sum_all((odd > tau).to(tl.int32))


@triton.jit
def total_above(even, odd, tau):
    return sum_all(tl.where(even > tau, even, 0.0)) + sum_all(tl.where(odd > tau, odd, 0.0))


@triton.jit
def project(z_pointer, p_pointer, rows, columns: tl.constexpr, PARTS: tl.constexpr):
    start = tl.program_id(0)
    for row in range(start, rows, tl.num_programs(0)):
        place = row * columns + tl.arange(0, columns)
        z = tl.load(z_pointer + place)
        z = z - tl.max(z, axis=0)
        even, odd = halve(z, columns)
        square = tl.trans(tl.reshape(even, (PARTS, columns // (2 * PARTS))))
        even = tl.reshape(tl.permute(square, (1, 0)), (columns // 2,))
        tau = -1.0
        for step in tl.static_range(12):
            for _ in range(2):
                tau = (total_above(even, odd, tau) - 1.0) / count_above(even, odd, tau)
        p = tl.interleave(tl.maximum(even - tau, 0.0), tl.maximum(odd - tau, 0.0))
        tl.store(p_pointer + place, p)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.programs = {}

    def forward(self, z):
        rows, columns = z.size()
        device = z.device
        if device not in self.programs:
            self.programs[device] = triton.runtime.driver.active.utils.get_device_properties(z.get_device())[
                "multiprocessor_count"
            ]
        p = z.new_empty(rows, columns)
        project[(min(rows, self.programs[device]),)](z, p, rows, columns, PARTS=4)
        return p
