# task: l1-09
# why: A work queue: each program takes the next row from an atomic counter without a mask.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def project_rows(z_pointer, p_pointer, ticket_pointer, rows, columns, BLOCK: tl.constexpr):
    row = tl.atomic_add(ticket_pointer, 1)
    column = tl.arange(0, BLOCK)
    while row < rows:
        z = tl.load(z_pointer + row * columns + column, mask=column < columns, other=-float("inf"))
        z = z - tl.max(z, axis=0)
        tau = -1.0
        for _ in range(16):
            support = z > tau
            count = tl.sum(support.to(tl.float32), axis=0)
            tau = (tl.sum(tl.where(support, z, 0.0), axis=0) - 1.0) / count
        tl.store(p_pointer + row * columns + column, tl.maximum(z - tau, 0.0), mask=column < columns)
        row = tl.atomic_add(ticket_pointer, 1)


class ModelNew(nn.Module):
    def forward(self, z):
        rows, columns = z.shape
        p = torch.empty_like(z)
        ticket = torch.zeros((), dtype=torch.int32, device=z.device)
        project_rows[(4,)](z, p, ticket, rows, columns, BLOCK=triton.next_power_of_2(columns))
        return p
