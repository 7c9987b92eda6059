# task: l1-09
# why: Two threads launch halves of the rows, and the call ends after both.
from concurrent.futures import ThreadPoolExecutor

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def project_row(z_pointer, p_pointer, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    z = tl.load(z_pointer + row * columns + column, mask=inside, other=-float("inf"))
    z = z - tl.max(z, axis=0)
    tau = -1.0
    for _ in range(32):
        support = z > tau
        count = tl.sum(support.to(tl.float32), axis=0)
        tau = (tl.sum(tl.where(support, z, 0.0), axis=0) - 1.0) / count
    tl.store(p_pointer + row * columns + column, tl.maximum(z - tau, 0.0), mask=inside)


def project(z, p):
    rows, columns = z.shape
    project_row[(rows,)](z, p, columns, BLOCK=triton.next_power_of_2(columns))


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.pool = ThreadPoolExecutor(2)

    def forward(self, z):
        p = torch.empty_like(z)
        list(self.pool.map(project, z.chunk(2), p.chunk(2)))
        return p
