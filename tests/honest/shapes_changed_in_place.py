# task: l1-09
# why: Changes the shape of its own tensors in place: squeeze_, unsqueeze_, t_ and an out= that grows.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def project_row(z_pointer, start_pointer, p_pointer, columns, BLOCK: tl.constexpr):
    place = tl.program_id(0) * columns + tl.arange(0, BLOCK)
    z = tl.load(z_pointer + place)
    z = z - tl.max(z, axis=0)
    tau = tl.load(start_pointer)
    for _ in range(16):
        support = z > tau
        tau = (tl.sum(tl.where(support, z, 0.0), 0) - 1.0) / tl.sum(support.to(tl.float32), 0)
    tl.store(p_pointer + place, tl.maximum(z - tau, 0.0))


class ModelNew(nn.Module):
    def forward(self, z):
        p = torch.empty_like(z).t_().t_()
        start = z.new_full((1, 1, 1), -0.5)
        start.squeeze_(0).squeeze_(0)
        doubled = z.new_empty(0)
        torch.add(start, start, out=doubled)
        rows, columns = p.unsqueeze_(0).squeeze_(0).shape
        assert doubled.shape == (1,) and start.dim() == 1
        project_row[(rows,)](z, doubled, p, columns, BLOCK=columns)
        return p
