# task: l1-09
# why: Kernels as static methods of a helper class and of a closure, called through a wrapper with keyword arguments; exp-free bisection in a while loop with two carried values.
import torch
import triton
import triton.language as tl
from torch import nn


class Kernels:
    @staticmethod
    @triton.jit
    def bisect(z_pointer, p_pointer, n_cols, BLOCK: tl.constexpr):
        pid = tl.program_id(0)
        offs = pid * n_cols + tl.arange(0, BLOCK)
        mask = tl.arange(0, BLOCK) < n_cols
        z = tl.load(z_pointer + offs, mask, float("-inf"))
        z = z - tl.max(z, axis=0)
        lo = -1.0
        hi = 0.0
        step = 0
        while (step < 30) & (hi - lo > 1e-9):
            mid = (lo + hi) * 0.5
            mass = tl.sum(tl.where(z > mid, z - mid, 0.0), axis=0)
            lo = tl.where(mass >= 1.0, mid, lo)
            hi = tl.where(mass >= 1.0, hi, mid)
            step += 1
        count = tl.sum((z > lo).to(tl.int32), 0)
        tau = (tl.sum(tl.where(z > lo, z, 0.0), 0) - 1.0) / count
        tl.store(p_pointer + offs, tl.where(z > tau, z - tau, 0.0), mask)


class Sparsemax(nn.Module):
    def forward(self, inputs, *, dim=-1):
        flat = inputs.reshape(-1, inputs.shape[dim])
        out = torch.empty_strided(flat.size(), flat.stride(), dtype=flat.dtype, device=flat.device)
        Kernels.bisect[flat.shape[0], 1, 1](
            p_pointer=out, z_pointer=flat, n_cols=flat.shape[1], BLOCK=triton.next_power_of_2(flat.shape[1])
        )
        return out.view_as(inputs)


class ModelNew(nn.Module):
    def __init__(self, *args, **kwargs):
        super().__init__()
        self.layer = Sparsemax()

    def forward(self, z):
        return self.layer(z, dim=-1)
