# task: l1-09
# environments: h200
# why: Tensor descriptors made on the host: the GPU's bulk copy engine moves the rows in and out.
import torch
import triton
import triton.language as tl
from torch import nn
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def project_lines(z, p, LINES: tl.constexpr):
    row = tl.program_id(0)
    values = z.load([row * LINES, 0])
    values = values - tl.max(tl.max(values, axis=1), axis=0)
    tau = -1.0
    previous = LINES * 256 + 1
    active = values > tau
    count = tl.sum(tl.sum(active.to(tl.int32), axis=1), axis=0)
    while count < previous:
        tau = (tl.sum(tl.sum(tl.where(active, values, 0.0), axis=1), axis=0) - 1.0) / count.to(tl.float32)
        previous = count
        active = values > tau
        count = tl.sum(tl.sum(active.to(tl.int32), axis=1), axis=0)
    p.store([row * LINES, 0], tl.maximum(values - tau, 0.0))


class ModelNew(nn.Module):
    def forward(self, z):
        rows, columns = z.shape
        p = torch.empty_like(z)
        # A descriptor's box has at most 256 elements a dimension, so a row is seen as several lines.
        lines = columns // 256
        source = TensorDescriptor.from_tensor(z.view(rows * lines, 256), [lines, 256])
        target = TensorDescriptor.from_tensor(p.view(rows * lines, 256), [lines, 256])
        project_lines[(rows,)](source, target, LINES=lines, num_warps=8)
        return p
