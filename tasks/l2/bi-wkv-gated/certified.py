"""Bidirectional WKV attention with gate and norm in Triton.

Strategy: the weights fall by the same factor from token to token, so the sums over all tokens before and all tokens
after are two running sums. A sum is kept as its numerator and denominator in units of its largest term, and two
neighbouring stretches of tokens can be joined, so the running sums are associative scans. One program scans the whole
sequence for four channels, in both directions, adds the token itself and gates the result; reading the neighbour's keys
and values in place of the token's own makes both scans exclusive. A second kernel normalises over the channels.
"""

import math

import torch
import triton
import triton.language as tl
from torch import nn

CHANNELS_AT_ONCE = 4
LOG2_E = math.log2(math.e)
# Below every key, but finite: the difference of two of them is zero and not NaN.
NOTHING = -1e30


@triton.jit
def join(left_top, left_sum, left_weight, left_decay, right_top, right_sum, right_weight, right_decay):
    # In units of exp2(top); the left stretch has decayed over the length of the right one.
    decayed = left_top + right_decay
    top = tl.maximum(decayed, right_top)
    left = tl.exp2(decayed - top)
    right = tl.exp2(right_top - top)
    return top, left_sum * left + right_sum * right, left_weight * left + right_weight * right, left_decay + right_decay


@triton.jit
def load_keys(k_pointer, v_pointer, place, inside, origin, scale, nothing):
    key = (tl.load(k_pointer + place, mask=inside, other=0.0) - origin) * scale
    value = tl.load(v_pointer + place, mask=inside, other=0.0)
    return tl.where(inside, key, nothing), value, inside.to(tl.float32)


@triton.jit
def scan_channels(
    k_pointer, v_pointer, r_pointer, decay_pointer, bonus_pointer, gated_pointer, T, C, scale, nothing,
    TOKENS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    token = tl.arange(0, TOKENS)[:, None]
    channel = tl.program_id(0) * CHANNELS + tl.arange(0, CHANNELS)[None, :]
    present = channel < C
    place = (tl.program_id(1) * T + token) * C + channel
    inside = (token < T) & present
    # The weights are the same for keys relative to any other; near each other their differences are exact.
    origin = tl.load(k_pointer + tl.program_id(1) * T * C + channel, mask=present, other=0.0)
    # Keys and decays in units of log 2.
    decay = tl.load(decay_pointer + channel, mask=present, other=0.0) * (-scale / T)
    decays = tl.zeros((TOKENS, CHANNELS), tl.float32) + decay
    key, value, weight = load_keys(k_pointer, v_pointer, place - C, inside & (token > 0), origin, scale, nothing)
    left_top, left_sum, left_weight, _ = tl.associative_scan((key, value, weight, decays), 0, join)
    key, value, weight = load_keys(k_pointer, v_pointer, place + C, (token < T - 1) & present, origin, scale, nothing)
    right_top, right_sum, right_weight, _ = tl.associative_scan((key, value, weight, decays), 0, join, reverse=True)
    key, value, _ = load_keys(k_pointer, v_pointer, place, inside, origin, scale, nothing)
    key += tl.load(bonus_pointer + channel, mask=present, other=0.0) * scale
    top = tl.maximum(tl.maximum(left_top, right_top), key)
    left = tl.exp2(left_top - top)
    right = tl.exp2(right_top - top)
    own = tl.exp2(key - top)
    wkv = (left_sum * left + right_sum * right + value * own) / (left_weight * left + right_weight * right + own)
    r = tl.load(r_pointer + place, mask=inside, other=0.0)
    tl.store(gated_pointer + place, wkv / (1.0 + tl.exp2(-scale * r)), mask=inside)


@triton.jit
def normalise_rows(gated_pointer, weight_pointer, bias_pointer, y_pointer, C, epsilon, BLOCK: tl.constexpr):
    channel = tl.arange(0, BLOCK)
    present = channel < C
    place = tl.program_id(0) * C + channel
    gated = tl.load(gated_pointer + place, mask=present, other=0.0)
    centred = tl.where(present, gated - tl.sum(gated, axis=0) / C, 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(centred * centred, axis=0) / C + epsilon)
    weight = tl.load(weight_pointer + channel, mask=present, other=0.0)
    bias = tl.load(bias_pointer + channel, mask=present, other=0.0)
    tl.store(y_pointer + place, centred * scale * weight + bias, mask=present)


class ModelNew(nn.Module):
    """y = norm(sigmoid(r) * wkv), wkv a mean of v with weights exp(k) that decay with the distance in both directions."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.decay = nn.Parameter(torch.zeros(channels))
        self.bonus = nn.Parameter(torch.zeros(channels))
        self.norm = nn.LayerNorm(channels)

    def forward(self, k: torch.Tensor, v: torch.Tensor, r: torch.Tensor) -> torch.Tensor:
        batch, tokens, channels = k.shape
        gated = torch.empty_like(k)
        y = torch.empty_like(k)
        scan_channels[(triton.cdiv(channels, CHANNELS_AT_ONCE), batch)](
            k, v, r, self.decay, self.bonus, gated, tokens, channels, LOG2_E, NOTHING,
            TOKENS=triton.next_power_of_2(tokens), CHANNELS=CHANNELS_AT_ONCE, num_warps=8,
        )  # fmt: skip
        normalise_rows[(batch * tokens,)](
            gated, self.norm.weight, self.norm.bias, y, channels, self.norm.eps,
            BLOCK=triton.next_power_of_2(channels), num_warps=1,
        )  # fmt: skip
        return y
