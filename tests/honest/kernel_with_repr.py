# task: l1-09
# why: A kernel with a name for profilers, by the argument repr that Triton offers.
import torch
import triton
import triton.language as tl
from torch import nn


def name_kernel(specialization):
    return "sparsemax_forward"


@triton.jit(repr=name_kernel)
def project_row(z_pointer, p_pointer, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    z = tl.load(z_pointer + row * columns + column, mask=inside, other=-float("inf"))
    z = z - tl.max(z, axis=0)
    tau = -1.0
    for _ in range(16):
        support = z > tau
        count = tl.sum(support.to(tl.float32), axis=0)
        tau = (tl.sum(tl.where(support, z, 0.0), axis=0) - 1.0) / count
    tl.store(p_pointer + row * columns + column, tl.maximum(z - tau, 0.0), mask=inside)


class ModelNew(nn.Module):
    def forward(self, z):
        rows, columns = z.shape
        p = torch.empty_like(z)
        project_row[(rows,)](z, p, columns, BLOCK=triton.next_power_of_2(columns))
        return p
