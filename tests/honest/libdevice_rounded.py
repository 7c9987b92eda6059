# task: l1-09
# why: Divisions, products and roots of libdevice that name their rounding, and its views of a float's bits.
import torch
import triton
import triton.language as tl
from torch import nn
from triton.language.extra import libdevice


@triton.jit
def project_row(z_pointer, p_pointer, columns, BLOCK: tl.constexpr):
    place = tl.program_id(0) * columns + tl.arange(0, BLOCK)
    z = tl.load(z_pointer + place)
    # Of floats of one sign the bits are ordered as the values are.
    bits = libdevice.float_as_int(z)
    ordered = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    top = tl.max(ordered, axis=0)
    top = libdevice.int_as_float(tl.where(top < 0, top ^ 0x7FFFFFFF, top))
    z = libdevice.sub_rn(z, top + tl.zeros_like(z))
    tau = tl.full((BLOCK,), -1.0, tl.float32)
    for _ in range(16):
        support = z > tau
        count = tl.sum(support.to(tl.int32), 0) + tl.zeros((BLOCK,), tl.int32)
        total = tl.sum(tl.where(support, z, 0.0), 0) - 1.0 + tl.zeros((BLOCK,), tl.float32)
        tau = libdevice.div_rn(total, libdevice.int2float_rn(count))
    p = libdevice.fma_rn(tau, tl.full((BLOCK,), -1.0, tl.float32), z)
    tl.store(p_pointer + place, tl.maximum(libdevice.mul_rn(p, tl.full((BLOCK,), 1.0, tl.float32)), 0.0))


class ModelNew(nn.Module):
    def forward(self, z):
        p = torch.empty_like(z)
        project_row[(z.shape[0],)](z, p, z.shape[1], BLOCK=z.shape[1])
        return p
