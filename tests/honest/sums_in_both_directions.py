# task: l2-08
# why: Linear in the tokens: one kernel runs backwards and keeps its sums with their running maximum, one runs forwards and combines both with gate and norm.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def take_in(top, above, below, logit, value):
    larger = tl.maximum(top, logit)
    shrink = tl.exp(top - larger)
    share = tl.exp(logit - larger)
    return larger, above * shrink + share * value, below * shrink + share


@triton.jit
def run_backwards(k_pointer, v_pointer, decay_pointer, sums_pointer, T, C, BLOCK: tl.constexpr):
    batch = tl.program_id(0)
    channel = tl.arange(0, BLOCK)
    inside = channel < C
    step = tl.load(decay_pointer + channel, mask=inside, other=0.0) / T
    top = tl.full((BLOCK,), -1e30, tl.float32)
    above = tl.zeros((BLOCK,), tl.float32)
    below = tl.zeros((BLOCK,), tl.float32)
    for back in range(T):
        place = (batch * T + T - 1 - back) * C + channel
        kept = sums_pointer + place * 3
        tl.store(kept, top, mask=inside)
        tl.store(kept + 1, above, mask=inside)
        tl.store(kept + 2, below, mask=inside)
        k = tl.load(k_pointer + place, mask=inside, other=0.0)
        v = tl.load(v_pointer + place, mask=inside, other=0.0)
        top, above, below = take_in(top - step, above, below, k, v)


@triton.jit
def run_forwards(
    k_pointer, v_pointer, r_pointer, decay_pointer, bonus_pointer, weight_pointer, bias_pointer, sums_pointer, y_pointer,
    T, C, BLOCK: tl.constexpr,
):  # fmt: skip
    batch = tl.program_id(0)
    channel = tl.arange(0, BLOCK)
    inside = channel < C
    step = tl.load(decay_pointer + channel, mask=inside, other=0.0) / T
    bonus = tl.load(bonus_pointer + channel, mask=inside, other=0.0)
    weight = tl.load(weight_pointer + channel, mask=inside, other=0.0)
    bias = tl.load(bias_pointer + channel, mask=inside, other=0.0)
    top = tl.full((BLOCK,), -1e30, tl.float32)
    above = tl.zeros((BLOCK,), tl.float32)
    below = tl.zeros((BLOCK,), tl.float32)
    for token in range(T):
        place = (batch * T + token) * C + channel
        kept = sums_pointer + place * 3
        k = tl.load(k_pointer + place, mask=inside, other=0.0)
        v = tl.load(v_pointer + place, mask=inside, other=0.0)
        other = tl.load(kept, mask=inside, other=0.0)
        all_top, all_above, all_below = take_in(top, above, below, k + bonus, v)
        larger = tl.maximum(all_top, other)
        mine, theirs = tl.exp(all_top - larger), tl.exp(other - larger)
        numerator = all_above * mine + tl.load(kept + 1, mask=inside, other=0.0) * theirs
        denominator = all_below * mine + tl.load(kept + 2, mask=inside, other=0.0) * theirs
        gated = tl.sigmoid(tl.load(r_pointer + place, mask=inside, other=0.0)) * numerator / denominator
        gated = tl.where(inside, gated, 0.0)
        centred = tl.where(inside, gated - tl.sum(gated, axis=0) / C, 0.0)
        y = centred / tl.sqrt(tl.sum(centred * centred, axis=0) / C + 1e-5) * weight + bias
        tl.store(y_pointer + place, y, mask=inside)
        top, above, below = take_in(top - step, above, below, k, v)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.decay = nn.Parameter(torch.zeros(channels))
        self.bonus = nn.Parameter(torch.zeros(channels))
        self.norm = nn.LayerNorm(channels)

    def forward(self, k, v, r):
        batch, tokens, channels = k.shape
        sums = k.new_empty(batch, tokens, channels, 3)
        y = torch.empty_like(k)
        block = triton.next_power_of_2(channels)
        run_backwards[(batch,)](k, v, self.decay, sums, tokens, channels, BLOCK=block)
        run_forwards[(batch,)](
            k, v, r, self.decay, self.bonus, self.norm.weight, self.norm.bias, sums, y, tokens, channels, BLOCK=block
        )
        return y
