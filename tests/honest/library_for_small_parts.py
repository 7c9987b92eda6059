# task: l1-09
# why: The library finds the row maxima; the kernel does the rest.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def project_row(z_pointer, top_pointer, p_pointer, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    z = tl.load(z_pointer + row * columns + column, mask=inside, other=-float("inf"))
    z = z - tl.load(top_pointer + row)
    tau = -1.0
    for _ in range(16):
        support = z > tau
        count = tl.sum(support.to(tl.float32), axis=0)
        tau = (tl.sum(tl.where(support, z, 0.0), axis=0) - 1.0) / count
    tl.store(p_pointer + row * columns + column, tl.maximum(z - tau, 0.0), mask=inside)


class ModelNew(nn.Module):
    def forward(self, z):
        rows, columns = z.shape
        top = z.amax(dim=-1)
        p = torch.empty_like(z)
        project_row[(rows,)](z, top, p, columns, BLOCK=triton.next_power_of_2(columns))
        return p
