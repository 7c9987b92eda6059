# task: l1-09
# why: The launch is registered as a torch.library operator with a fake implementation.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
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


@torch.library.custom_op("mine::project", mutates_args=())
def project(z: torch.Tensor) -> torch.Tensor:
    rows, columns = z.shape
    p = torch.empty_like(z)
    project_row[(rows,)](z, p, columns, BLOCK=triton.next_power_of_2(columns))
    return p


@project.register_fake
def _(z: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(z)


class ModelNew(nn.Module):
    def forward(self, z):
        return torch.ops.mine.project(z)
