# task: l1-09
# why: Times two of its own kernels with events in the first call of each shape and keeps the faster; the loser never runs again.
import torch
import triton
import triton.language as tl
from torch import nn


def make_kernel(rounds):
    @triton.jit
    def project(z_pointer, p_pointer, columns, BLOCK: tl.constexpr, ROUNDS: tl.constexpr):
        place = tl.program_id(0) * columns + tl.arange(0, BLOCK)
        z = tl.load(z_pointer + place)
        z = z - tl.max(z, axis=0)
        tau = -1.0
        for _ in range(ROUNDS):
            support = z > tau
            tau = (tl.sum(tl.where(support, z, 0.0), 0) - 1.0) / tl.sum(support.to(tl.float32), 0)
        tl.store(p_pointer + place, tl.maximum(z - tau, 0.0))

    return lambda grid, *args, **named: project[grid](*args, ROUNDS=rounds, **named)


KERNELS = [make_kernel(16), make_kernel(20)]


class ModelNew(nn.Module):
    chosen = {}

    def launch(self, kernel, z, warps):
        p = torch.empty_like(z)
        kernel((z.shape[0],), z, p, z.shape[1], BLOCK=z.shape[1], num_warps=warps)
        return p

    def measure(self, kernel, z, warps):
        self.launch(kernel, z, warps)
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(3):
            self.launch(kernel, z, warps)
        end.record()
        torch.cuda.synchronize()
        return start.elapsed_time(end)

    def forward(self, z):
        key = tuple(z.shape), z.dtype, z.device.index
        if key not in self.chosen:
            choices = [(kernel, warps) for kernel in KERNELS for warps in (2, 4)]
            self.chosen[key] = min(choices, key=lambda choice: self.measure(choice[0], z, choice[1]))
        return self.launch(self.chosen[key][0], z, self.chosen[key][1])
