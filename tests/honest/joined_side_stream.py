# task: l1-09
# why: Half of the rows on a side stream that is joined before the call returns.
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


class ModelNew(nn.Module):
    def forward(self, z):
        rows, columns = z.shape
        p = torch.empty_like(z)
        half, block = rows // 2, triton.next_power_of_2(columns)
        side, main = torch.cuda.Stream(), torch.cuda.current_stream()
        side.wait_stream(main)
        with torch.cuda.stream(side):
            project_row[(half,)](z, p, columns, BLOCK=block)
        project_row[(rows - half,)](z[half:], p[half:], columns, BLOCK=block)
        main.wait_stream(side)
        return p
