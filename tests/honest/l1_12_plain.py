# task: l1-12
# why: One program walks through time for a block of channels, one step after another; softplus by PyTorch.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def scan(x_pointer, gate_pointer, rate_pointer, reset_pointer, h_pointer, T, D, BLOCK: tl.constexpr):
    sequence = tl.program_id(1)
    channel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = channel < D
    rate = tl.load(rate_pointer + channel, mask=inside, other=0.0)
    h = tl.zeros((BLOCK,), tl.float32)
    for step in range(T):
        place = (sequence * T + step) * D + channel
        x = tl.load(x_pointer + place, mask=inside, other=0.0)
        gate = tl.load(gate_pointer + place, mask=inside, other=0.0)
        reset = tl.load(reset_pointer + sequence * T + step) != 0
        exponent = rate * tl.sigmoid(gate)
        decay = tl.exp(-exponent)
        # 1 - a^2 = (1 - a) (1 + a), and 1 - a = 2 sinh(e / 2) exp(-e / 2), whose series is short where e is small.
        half = exponent * 0.5
        sinh = half * (1.0 + half * half * (1.0 / 6.0 + half * half * (1.0 / 120.0)))
        rest = tl.where(exponent < 0.5, 2.0 * sinh * tl.exp(-half), 1.0 - decay)
        factor = tl.sqrt(rest * (1.0 + decay))
        h = tl.where(reset, x, decay * h + factor * x)
        tl.store(h_pointer + place, h, mask=inside)


class ModelNew(nn.Module):
    def forward(self, x, gate, rate, reset):
        batch, steps, channels = x.shape
        h = torch.empty_like(x)
        rate = 8.0 * nn.functional.softplus(rate)
        scan[(triton.cdiv(channels, 32), batch)](x, gate, rate, reset, h, steps, channels, BLOCK=32)
        return h
