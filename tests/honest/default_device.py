# task: l1-09
# why: Names the GPU once as the default device, lets factories follow it, and seeds its generators.
import torch
import triton
import triton.language as tl
from torch import nn

torch.set_default_device("cuda")


@triton.jit
def project_row(z_pointer, start_pointer, p_pointer, columns, BLOCK: tl.constexpr):
    place = tl.program_id(0) * columns + tl.arange(0, BLOCK)
    z = tl.load(z_pointer + place)
    z = z - tl.max(z, axis=0)
    tau = tl.load(start_pointer)
    for _ in range(17):
        support = z > tau
        tau = (tl.sum(tl.where(support, z, 0.0), 0) - 1.0) / tl.sum(support.to(tl.float32), 0)
    tl.store(p_pointer + place, tl.maximum(z - tau, 0.0))


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        torch.cuda.manual_seed(7)
        generator = torch.Generator(device="cuda").manual_seed(7)
        # Any start below the threshold is as good.
        self.start = torch.tensor([-1.0]) - 0.1 * torch.rand(1, generator=generator)
        self.spare = nn.Linear(4, 4).weight.detach().uniform_(generator=generator)
        assert self.start.is_cuda and self.spare.is_cuda and torch.get_default_device().type == "cuda"

    def forward(self, z):
        p = torch.empty(z.shape)
        project_row[(z.shape[0],)](z, self.start, p, z.shape[1], BLOCK=z.shape[1])
        return p
