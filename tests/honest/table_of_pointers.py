# task: l1-09
# why: Packs the rows' results behind a table of pointers, as grouped kernels do.
# environments: h200
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def project_rows(table_pointer, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    z_pointer = tl.load(table_pointer + 0).to(tl.pointer_type(tl.float32))
    p_pointer = tl.load(table_pointer + 1).to(tl.pointer_type(tl.float32))
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
        table = torch.tensor([z.data_ptr(), p.data_ptr()], dtype=torch.int64, device=z.device)
        project_rows[(rows,)](table, columns, BLOCK=triton.next_power_of_2(columns))
        return p
