# task: l1-09
# why: torch.autograd.Function with save_for_backward, inference_mode, contiguous, a device context and strides passed to the kernel.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def _sparsemax_fwd(x_ptr, y_ptr, stride_xm: tl.int64, stride_xn, stride_ym, stride_yn, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(axis=0).to(tl.int64)
    x_ptr += row * stride_xm
    y_ptr += row * stride_ym
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    z = tl.load(x_ptr + cols * stride_xn, mask=mask, other=float("-inf"), eviction_policy="evict_first").to(tl.float32)
    z -= tl.max(z, 0)
    tau = -1.0
    for _ in tl.static_range(12):
        active = z > tau
        k = tl.sum(active.to(tl.int32), 0)
        tau = (tl.sum(tl.where(active, z, 0.0), 0) - 1.0) / k
    tl.store(y_ptr + cols * stride_yn, tl.maximum(z - tau, 0), mask=mask, cache_modifier=".cg")


class _Sparsemax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.contiguous()
        y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        n_rows, n_cols = x.shape
        with torch.cuda.device(x.device):
            _sparsemax_fwd[(n_rows,)](
                x,
                y,
                x.stride(0),
                x.stride(1),
                y.stride(0),
                y.stride(1),
                n_cols,
                BLOCK=triton.next_power_of_2(n_cols),
                num_warps=4,
                num_stages=2,
            )
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        raise NotImplementedError


class ModelNew(nn.Module):
    @torch.inference_mode()
    def forward(self, z: torch.Tensor) -> torch.Tensor:
        return _Sparsemax.apply(z)
