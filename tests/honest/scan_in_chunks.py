# task: l1-12
# why: Time is cut into chunks: one kernel scans each with pairs, one carries states from chunk to chunk, one adds them.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def join(a, b, other_a, other_b):
    return a * other_a, other_a * b + other_b


@triton.jit
def scan_chunk(
    x_pointer,
    gate_pointer,
    rate_pointer,
    reset_pointer,
    a_pointer,
    h_pointer,
    T,
    D,
    STEPS: tl.constexpr,
    CHANNELS: tl.constexpr,
):
    sequence = tl.program_id(2)
    channel = tl.program_id(0) * CHANNELS + tl.arange(0, CHANNELS)[None, :]
    step = tl.program_id(1) * STEPS + tl.arange(0, STEPS)[:, None]
    inside = (channel < D) & (step < T)
    place = (sequence * T + step) * D + channel
    rate = tl.load(rate_pointer + channel, mask=channel < D, other=0.0)
    x = tl.load(x_pointer + place, mask=inside, other=0.0)
    gate = tl.load(gate_pointer + place, mask=inside, other=0.0)
    reset = tl.load(reset_pointer + sequence * T + step, mask=step < T, other=0) != 0
    exponent = rate * tl.sigmoid(gate)
    decay = tl.exp(-exponent)
    half = exponent * 0.5
    sinh = half * (1.0 + half * half * (1.0 / 6.0 + half * half * (1.0 / 120.0)))
    rest = tl.where(exponent < 0.5, 2.0 * sinh * tl.exp(-half), 1.0 - decay)
    a = tl.where(reset, 0.0, decay)
    b = tl.where(reset, x, tl.sqrt(rest * (1.0 + decay)) * x)
    a, h = tl.associative_scan((a, b), 0, join)
    tl.store(a_pointer + place, a, mask=inside)
    tl.store(h_pointer + place, h, mask=inside)


@triton.jit
def carry(a_pointer, h_pointer, state_pointer, T, D, chunks, STEPS: tl.constexpr, CHANNELS: tl.constexpr):
    sequence = tl.program_id(1)
    channel = tl.program_id(0) * CHANNELS + tl.arange(0, CHANNELS)
    inside = channel < D
    state = tl.zeros((CHANNELS,), tl.float32)
    for chunk in range(chunks):
        tl.store(state_pointer + (sequence * chunks + chunk) * D + channel, state, mask=inside)
        last = tl.minimum((chunk + 1) * STEPS, T) - 1
        place = (sequence * T + last) * D + channel
        state = tl.load(a_pointer + place, mask=inside, other=0.0) * state + tl.load(
            h_pointer + place, mask=inside, other=0.0
        )


@triton.jit
def add(a_pointer, h_pointer, state_pointer, T, D, chunks, STEPS: tl.constexpr, CHANNELS: tl.constexpr):
    sequence = tl.program_id(2)
    channel = tl.program_id(0) * CHANNELS + tl.arange(0, CHANNELS)[None, :]
    step = tl.program_id(1) * STEPS + tl.arange(0, STEPS)[:, None]
    inside = (channel < D) & (step < T)
    place = (sequence * T + step) * D + channel
    state = tl.load(state_pointer + (sequence * chunks + tl.program_id(1)) * D + channel, mask=channel < D, other=0.0)
    h = tl.load(h_pointer + place, mask=inside) + tl.load(a_pointer + place, mask=inside) * state
    tl.store(h_pointer + place, h, mask=inside)


class ModelNew(nn.Module):
    def forward(self, x, gate, rate, reset):
        batch, steps, channels = x.shape
        chunks = triton.cdiv(steps, 16)
        a, h = torch.empty_like(x), torch.empty_like(x)
        state = x.new_empty(batch, chunks, channels)
        rate = 8.0 * nn.functional.softplus(rate)
        grid = (triton.cdiv(channels, 16), chunks, batch)
        scan_chunk[grid](x, gate, rate, reset, a, h, steps, channels, STEPS=16, CHANNELS=16)
        carry[(grid[0], batch)](a, h, state, steps, channels, chunks, STEPS=16, CHANNELS=16)
        add[grid](a, h, state, steps, channels, chunks, STEPS=16, CHANNELS=16)
        return h
