# task: l1-09
# why: The kernel shifts each row and finds its threshold; library operators subtract and clamp, so that few values matter.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def find_threshold(z_pointer, shifted_pointer, tau_pointer, columns, BLOCK: tl.constexpr):
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
    tl.store(shifted_pointer + row * columns + column, z, mask=inside)
    tl.store(tau_pointer + row, tau)


class ModelNew(nn.Module):
    def forward(self, z):
        rows, columns = z.shape
        shifted, tau = torch.empty_like(z), z.new_empty(rows, 1)
        find_threshold[(rows,)](z, shifted, tau, columns, BLOCK=triton.next_power_of_2(columns))
        return shifted.sub_(tau).clamp_(min=0.0)
