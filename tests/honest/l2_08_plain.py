# task: l2-08
# why: One program a token goes over all other tokens, quadratic in their number.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def attend(
    k_pointer, v_pointer, r_pointer, decay_pointer, bonus_pointer, weight_pointer, bias_pointer, y_pointer,
    T, C, BLOCK: tl.constexpr,
):  # fmt: skip
    token = tl.program_id(0)
    batch = tl.program_id(1)
    channel = tl.arange(0, BLOCK)
    inside = channel < C
    place = (batch * T + token) * C + channel
    decay = tl.load(decay_pointer + channel, mask=inside, other=0.0)
    largest = tl.load(k_pointer + place, mask=inside, other=0.0)
    largest += tl.load(bonus_pointer + channel, mask=inside, other=0.0)
    numerator = tl.load(v_pointer + place, mask=inside, other=0.0)
    denominator = tl.full((BLOCK,), 1.0, tl.float32)
    for other in range(0, T):
        if other != token:
            there = (batch * T + other) * C + channel
            distance = tl.abs(token - other) - 1
            logit = tl.load(k_pointer + there, mask=inside, other=0.0) - distance.to(tl.float32) / T * decay
            larger = tl.maximum(largest, logit)
            shrink = tl.exp(largest - larger)
            share = tl.exp(logit - larger)
            numerator = numerator * shrink + share * tl.load(v_pointer + there, mask=inside, other=0.0)
            denominator = denominator * shrink + share
            largest = larger
    gated = tl.sigmoid(tl.load(r_pointer + place, mask=inside, other=0.0)) * numerator / denominator
    centred = tl.where(inside, gated - tl.sum(tl.where(inside, gated, 0.0), axis=0) / C, 0.0)
    y = centred / tl.sqrt(tl.sum(centred * centred, axis=0) / C + 1e-5)
    y = y * tl.load(weight_pointer + channel, mask=inside) + tl.load(bias_pointer + channel, mask=inside)
    tl.store(y_pointer + place, y, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.decay = nn.Parameter(torch.zeros(channels))
        self.bonus = nn.Parameter(torch.zeros(channels))
        self.norm = nn.LayerNorm(channels)

    def forward(self, k, v, r):
        batch, tokens, channels = k.shape
        y = torch.empty_like(k)
        attend[(tokens, batch)](
            k, v, r, self.decay, self.bonus, self.norm.weight, self.norm.bias, y, tokens, channels,
            BLOCK=triton.next_power_of_2(channels),
        )  # fmt: skip
        return y
