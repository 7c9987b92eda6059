"""Gated linear recurrence with input normalisation and resets (RG-LRU) in Triton.

Strategy: one program owns a few channels of one sequence and walks through time, so that x and gate are read once, h is
written once, and the state never leaves the program. A tile of time is cut into runs of four steps. Each thread
composes its run in registers; one associative scan over the runs then gives every run the map from the state before the
tile to the state before the run, and four multiply-adds finish the run. The loads of the next tiles are in flight
meanwhile, and two programs share a multiprocessor: while one waits at a barrier of its scan, the other computes.

A step is the map h -> decay * h + gain. The square of the input factor, 1 - a^2 = -expm1(2 log a), comes from a series
where a is near 1.
"""

import torch
import triton
import triton.language as tl
from torch import nn
from triton.language.extra import libdevice

LOG2_E = tl.constexpr(1.4426950408889634)
# The rate in binary logarithms, before softplus and sigmoid.
RATE = tl.constexpr(8.0 * 1.4426950408889634)
# Steps of one run. The kernel spells them out.
RUN = tl.constexpr(4)
RUNS = 32
CHANNELS = 16


@triton.jit
def load_resets(reset_pointer, sequence, time, T):
    return tl.load(reset_pointer + sequence * T + time, mask=time < T, other=0)


@triton.jit
def compute_step(x_pointer, gate_pointer, sequence, time, channel, rate, reset, T, D):
    place = (sequence * T + time)[:, None] * D + channel[None, :]
    inside = (time < T)[:, None] & (channel < D)[None, :]
    x = tl.load(x_pointer + place, mask=inside, other=0.0)
    gate = tl.load(gate_pointer + place, mask=inside, other=0.0)
    reset = reset[:, None] != 0
    exponent = rate[None, :] / (1.0 + tl.exp2(-LOG2_E * gate))
    decay = tl.exp2(-exponent)
    # The series of 1 - exp(-u), good to an ulp below u = 1/4.
    u = (2.0 / LOG2_E) * exponent
    series = u * (1.0 - u * (1.0 / 2 - u * (1.0 / 6 - u * (1.0 / 24 - u * (1.0 / 120 - u * (1.0 / 720))))))
    factor = tl.sqrt(tl.where(u < 0.25, series, 1.0 - decay * decay))
    return tl.where(reset, 0.0, decay), tl.where(reset, x, factor * x)


@triton.jit
def join_runs(
    decay_1, gain_1, decay_before_1, gain_before_1, decay_2, gain_2, decay_before_2, gain_before_2,
):  # fmt: skip
    """Compose the maps of two spans, and the map up to the last run of the second."""
    return (
        decay_1 * decay_2,
        decay_2 * gain_1 + gain_2,
        decay_1 * decay_before_2,
        decay_before_2 * gain_1 + gain_before_2,
    )


@triton.jit
def scan_channels(
    x_pointer, gate_pointer, rate_pointer, reset_pointer, h_pointer, T, D,
    RUNS: tl.constexpr, CHANNELS: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    sequence = tl.program_id(1)
    channel = tl.program_id(0) * CHANNELS + tl.arange(0, CHANNELS)
    inside = channel < D
    logit = tl.load(rate_pointer + channel, mask=inside, other=0.0)
    rate = RATE * (tl.maximum(logit, 0.0) + libdevice.log1p(tl.exp(-tl.abs(logit))))
    first = tl.arange(0, RUNS) * RUN
    r0 = load_resets(reset_pointer, sequence, first, T)
    r1 = load_resets(reset_pointer, sequence, first + 1, T)
    r2 = load_resets(reset_pointer, sequence, first + 2, T)
    r3 = load_resets(reset_pointer, sequence, first + 3, T)
    state = tl.zeros((CHANNELS,), tl.float32)
    for start in tl.range(0, T, RUNS * RUN, num_stages=STAGES):
        time = start + first
        a0, b0 = compute_step(x_pointer, gate_pointer, sequence, time, channel, rate, r0, T, D)
        a1, b1 = compute_step(x_pointer, gate_pointer, sequence, time + 1, channel, rate, r1, T, D)
        a2, b2 = compute_step(x_pointer, gate_pointer, sequence, time + 2, channel, rate, r2, T, D)
        a3, b3 = compute_step(x_pointer, gate_pointer, sequence, time + 3, channel, rate, r3, T, D)
        # Bytes are too narrow for the pipeline, so those of the next tile are asked for by hand.
        following = time + RUNS * RUN
        r0 = load_resets(reset_pointer, sequence, following, T)
        r1 = load_resets(reset_pointer, sequence, following + 1, T)
        r2 = load_resets(reset_pointer, sequence, following + 2, T)
        r3 = load_resets(reset_pointer, sequence, following + 3, T)
        b1 += a1 * b0
        b2 += a2 * b1
        b3 += a3 * b2
        a1 *= a0
        a2 *= a1
        a3 *= a2
        _, _, decay, gain = tl.associative_scan(
            (a3, b3, tl.full((RUNS, CHANNELS), 1.0, tl.float32), tl.zeros((RUNS, CHANNELS), tl.float32)), 0, join_runs
        )
        before = decay * state[None, :] + gain
        last = a3 * before + b3
        place = h_pointer + (sequence * T + time)[:, None] * D + channel[None, :]
        tl.store(place, a0 * before + b0, mask=(time < T)[:, None] & inside[None, :])
        tl.store(place + D, a1 * before + b1, mask=(time + 1 < T)[:, None] & inside[None, :])
        tl.store(place + 2 * D, a2 * before + b2, mask=(time + 2 < T)[:, None] & inside[None, :])
        tl.store(place + 3 * D, last, mask=(time + 3 < T)[:, None] & inside[None, :])
        state = tl.sum(tl.where((first == (RUNS - 1) * RUN)[:, None], last, 0.0), axis=0)


class ModelNew(nn.Module):
    """h[t] = a[t] h[t - 1] + sqrt(1 - a[t]^2) x[t], where a reset forgets the state and takes x[t] as it is."""

    def forward(self, x: torch.Tensor, gate: torch.Tensor, rate: torch.Tensor, reset: torch.Tensor) -> torch.Tensor:
        batch, steps, channels = x.shape
        h = torch.empty_like(x)
        runs = min(RUNS, triton.next_power_of_2(triton.cdiv(steps, 2 * RUN.value)))
        scan_channels[(triton.cdiv(channels, CHANNELS), batch)](
            x, gate, rate, reset, h, steps, channels, RUNS=runs, CHANNELS=CHANNELS, STAGES=3, num_warps=4
        )
        return h
