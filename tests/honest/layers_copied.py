# task: l1-09
# why: Copies modules and tensors of the device with copy.deepcopy, moves a recurrent layer there, and names values in a message.
import copy

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


class Start(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("value", torch.full((1,), -1.0), persistent=False)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.start = Start()
        self.by_device = {}
        self.described = ""

    def prepare(self, device):
        start = copy.deepcopy(self.start)
        # A recurrent layer asks cuDNN to lay its weights out when it is moved.
        layer = copy.deepcopy(nn.GRU(4, 4).to(device)).double()
        assert layer(torch.zeros(2, 1, 4, device=device, dtype=torch.float64))[0].shape == (2, 1, 4)
        self.described = f"from {start.value[0]:.3f} in {layer.weight_ih_l0.dtype}"
        self.by_device[device] = start

    def forward(self, z):
        if z.device not in self.by_device:
            self.prepare(z.device)
        p = torch.empty_like(z)
        start = copy.deepcopy(self.by_device[z.device].value)
        project_row[(z.shape[0],)](z, start, p, z.shape[1], BLOCK=z.shape[1])
        assert self.described == "from -1.000 in torch.float64"
        return p
