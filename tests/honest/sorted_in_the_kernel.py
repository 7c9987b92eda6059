# task: l1-09
# why: Sorts in the kernel, sums along the order, flips, and reads the multiprocessors to choose a grid; TorchScript computes the block.
import torch
import triton
import triton.language as tl
from torch import nn


@torch.jit.script
def choose_rows(rows: int, processors: int) -> int:
    return max(1, rows // processors)


@triton.jit
def project_sorted(z_pointer, p_pointer, rows, columns: tl.constexpr, EACH: tl.constexpr):
    for step in range(EACH):
        row = tl.program_id(0) * EACH + step
        if row < rows:
            column = tl.arange(0, columns)
            z = tl.load(z_pointer + row * columns + column)
            top = tl.max(z, axis=0)
            ordered = tl.flip(tl.sort(z - top))
            excess = tl.cumsum(ordered, axis=0) - 1.0
            support = tl.sum(((column + 1) * ordered > excess).to(tl.int32), axis=0)
            tau = tl.sum(tl.where(column == support - 1, excess, 0.0), axis=0) / support
            tl.store(p_pointer + row * columns + column, tl.maximum((z - top) - tau, 0.0))


class ModelNew(nn.Module):
    def forward(self, z):
        rows, columns = z.shape
        processors = torch.cuda.get_device_properties(z.device).multi_processor_count
        each = choose_rows(rows, processors)
        p = torch.empty_strided(z.size(), z.stride(), dtype=z.dtype, device=z.device)
        project_sorted[(triton.cdiv(rows, each), 1, 1)](z, p, rows, columns, each, num_warps=4)
        return p
