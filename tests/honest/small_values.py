# task: l1-09
# why: Makes and picks small values as PyTorch allows: lists and host tensors as indices, one_hot, quantile, new_tensor.
import torch
import triton
import triton.language as tl
from torch import nn
from torch.nn import functional


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
        p = torch.empty_like(z)
        starts = z.new_tensor([[0.0, -1.0], [-1.0, 0.0]])
        start = starts[[0, 1], [1, 0]][torch.tensor([1])]
        starts[:, [0]] = 2.0
        choice = functional.one_hot(torch.zeros(1, dtype=torch.int64, device=z.device), num_classes=2).to(z.dtype)
        # One times the start, and the middle of nothing but starts.
        start = (choice * torch.stack([start, starts[1:, 0]], 1)).sum(-1).expand(3).quantile(0.5).reshape(1)
        project_row[(z.shape[0],)](z, start, p, z.shape[1], BLOCK=z.shape[1])
        return p
