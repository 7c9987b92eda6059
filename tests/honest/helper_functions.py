# task: l1-09
# why: Device functions that call each other, one of them not inlined.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def measure(z, tau):
    support = z > tau
    return tl.sum(support.to(tl.float32), axis=0), tl.sum(tl.where(support, z, 0.0), axis=0)


@triton.jit(noinline=True)
def improve(count, mass):
    return (mass - 1.0) / count


@triton.jit
def project_row(z_pointer, p_pointer, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    z = tl.load(z_pointer + row * columns + column, mask=column < columns, other=-float("inf"))
    z = z - tl.max(z, axis=0)
    tau = -1.0
    for _ in range(16):
        count, mass = measure(z, tau)
        tau = improve(count, mass)
    tl.store(p_pointer + row * columns + column, tl.maximum(z - tau, 0.0), mask=column < columns)


def project(z):
    rows, columns = z.shape
    p = torch.empty_like(z)
    project_row[(rows,)](z, p, columns, BLOCK=triton.next_power_of_2(columns))
    return p


class ModelNew(nn.Module):
    def forward(self, z):
        return project(z)
