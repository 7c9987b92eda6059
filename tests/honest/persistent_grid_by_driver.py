# task: l1-09
# why: The number of multiprocessors comes from Triton's driver.
import torch
import triton
import triton.language as tl
from torch import nn

from triton.runtime import driver


@triton.jit
def project_row(z_pointer, p_pointer, rows, columns, BLOCK: tl.constexpr):
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
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
        processors = driver.active.utils.get_device_properties(z.device.index)["multiprocessor_count"]
        project_row[(min(rows // 2, processors),)](z, p, rows, columns, BLOCK=triton.next_power_of_2(columns))
        return p
