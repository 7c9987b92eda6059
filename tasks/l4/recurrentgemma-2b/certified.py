# mypy: ignore-errors
"""Three layers of RecurrentGemma-2B: the library's products and attention, Triton for everything between them.

Strategy: nine tenths of the arithmetic are plain products, which stay with cuBLAS; each adds its result to the
residual stream in place. What PyTorch loses is the recurrence: convolution, two block-diagonal products, the decay and
eleven doubling steps over fp32 tensors. Here it takes three kernels. The first convolves. The second multiplies a tile of
tokens by both gate matrices on tensor cores, forms decay and increment in registers, and scans the tile with a zero state
at its start; it stores the state and the product of decays in fp16, and the values at the tile's end in fp32. The third
combines the ends of all earlier tiles into the state at the start of its own, again by a scan, adds it
times the product of decays, and multiplies by the gate. Norms, rotation and gated activations are one pass each.
"""

import math

import torch
import triton
import triton.language as tl
from torch import nn
from torch.nn import functional

LOG2_BASE = tl.constexpr(math.log2(10_000.0))
GELU_FACTOR = tl.constexpr(2.0 * math.sqrt(2.0 / math.pi))
EPSILON = 1e-6
TAPS = 4


@triton.jit
def gelu(x):
    return x * tl.sigmoid(GELU_FACTOR * (x + 0.044715 * x * x * x))


@triton.jit
def normalise_rows(
    h_pointer, weight_pointer, normed_pointer, rows, epsilon,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    channel = tl.arange(0, BLOCK)
    inside = (row < rows)[:, None] & (channel < WIDTH)[None, :]
    place = row.to(tl.int64)[:, None] * WIDTH + channel[None, :]
    h = tl.load(h_pointer + place, mask=inside, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(h * h, axis=1) / WIDTH + epsilon)
    weight = 1.0 + tl.load(weight_pointer + channel, mask=channel < WIDTH, other=0.0).to(tl.float32)
    tl.store(normed_pointer + place, (h * scale[:, None] * weight[None, :]).to(tl.float16), mask=inside)


@triton.jit
def gate_values(gate_pointer, up_pointer, count, BLOCK: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place < count
    gate = tl.load(gate_pointer + place, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(up_pointer + place, mask=inside, other=0.0).to(tl.float32)
    tl.store(up_pointer + place, (gelu(gate) * up).to(tl.float16), mask=inside)


@triton.jit
def rotate_heads(x_pointer, rows, S, QUARTER: tl.constexpr, TOKENS: tl.constexpr, HEADS: tl.constexpr):
    token = tl.program_id(0) * TOKENS + tl.arange(0, TOKENS)
    channel = tl.arange(0, QUARTER)
    inside = (token < rows)[:, None]
    # Angles are the same for all heads: the loop spares sines and cosines.
    angle = (token % S).to(tl.float32)[:, None] * tl.exp2(channel.to(tl.float32) * (-LOG2_BASE / QUARTER))[None, :]
    cosine = tl.cos(angle)
    sine = tl.sin(angle)
    for head in tl.static_range(HEADS):
        place = (token.to(tl.int64)[:, None] * HEADS + head) * (4 * QUARTER) + channel[None, :]
        left = tl.load(x_pointer + place, mask=inside, other=0.0).to(tl.float32)
        right = tl.load(x_pointer + place + QUARTER, mask=inside, other=0.0).to(tl.float32)
        tl.store(x_pointer + place, (left * cosine - right * sine).to(tl.float16), mask=inside)
        tl.store(x_pointer + place + QUARTER, (right * cosine + left * sine).to(tl.float16), mask=inside)


@triton.jit
def convolve(
    x_pointer, weight_pointer, bias_pointer, y_pointer, S, D,
    TAPS: tl.constexpr, TOKENS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    token = tl.program_id(1) * TOKENS + tl.arange(0, TOKENS)
    channel = tl.program_id(0) * CHANNELS + tl.arange(0, CHANNELS)
    known = channel < D
    row = tl.program_id(2).to(tl.int64) * S + token
    bias = tl.load(bias_pointer + channel, mask=known, other=0.0).to(tl.float32)
    result = tl.zeros((TOKENS, CHANNELS), tl.float32) + bias[None, :]
    for tap in tl.static_range(TAPS):
        source = token - (TAPS - 1 - tap)
        inside = ((source >= 0) & (source < S))[:, None] & known[None, :]
        place = (row - (TAPS - 1 - tap))[:, None] * D + channel[None, :]
        x = tl.load(x_pointer + place, mask=inside, other=0.0).to(tl.float32)
        result += x * tl.load(weight_pointer + channel * TAPS + tap, mask=known, other=0.0).to(tl.float32)[None, :]
    inside = (token < S)[:, None] & known[None, :]
    tl.store(y_pointer + row[:, None] * D + channel[None, :], result.to(tl.float16), mask=inside)


@triton.jit
def compose(decay, state, later_decay, later_state):
    return decay * later_decay, later_decay * state + later_state


@triton.jit
def scan_chunks(
    x_pointer, input_pointer, input_bias_pointer, recurrence_pointer, recurrence_bias_pointer, rate_pointer,
    state_pointer, decay_pointer, end_state_pointer, end_decay_pointer, S, D,
    WIDTH: tl.constexpr, CHUNK: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    SLICES: tl.constexpr = WIDTH // COLUMNS
    batch = tl.program_id(2).to(tl.int64)
    block = tl.program_id(0) // SLICES
    column = tl.program_id(0) % SLICES * COLUMNS + tl.arange(0, COLUMNS)
    chunk = tl.program_id(1)
    row = tl.arange(0, CHUNK)
    token = chunk * CHUNK + row
    inside = (token < S)[:, None]
    x_pointer += (batch * S + token[:, None]) * D
    matrix = block * WIDTH * WIDTH
    opened = tl.zeros((CHUNK, COLUMNS), tl.float32)
    recurrent = tl.zeros((CHUNK, COLUMNS), tl.float32)
    for start in range(0, WIDTH, DEPTH):
        term = start + tl.arange(0, DEPTH)
        x = tl.load(x_pointer + block * WIDTH + term[None, :], mask=inside, other=0.0)
        place = matrix + term[:, None] * WIDTH + column[None, :]
        opened = tl.dot(x, tl.load(input_pointer + place), opened)
        recurrent = tl.dot(x, tl.load(recurrence_pointer + place), recurrent)
    channel = block * WIDTH + column
    opened = tl.sigmoid(opened + tl.load(input_bias_pointer + channel).to(tl.float32)[None, :])
    recurrent = tl.sigmoid(recurrent + tl.load(recurrence_bias_pointer + channel).to(tl.float32)[None, :])
    rate = 8.0 * tl.log(1.0 + tl.exp(tl.load(rate_pointer + channel)))
    log_decay = -recurrent * rate[None, :]
    decay = tl.exp(log_decay)
    # 1 - decay^2 cancels where decay is close to 1: there the series of the exponential is exact.
    series = -2.0 * log_decay * (1.0 + log_decay * (1.0 + log_decay * (2.0 / 3.0)))
    multiplier = tl.sqrt(tl.where(log_decay > -0.01, series, 1.0 - decay * decay))
    multiplier = tl.where((token == 0)[:, None], 1.0, multiplier)
    x = tl.load(x_pointer + channel[None, :], mask=inside, other=0.0)
    decay, state = tl.associative_scan((decay, multiplier * opened * x.to(tl.float32)), 0, compose)
    place = (batch * S + token[:, None]) * D + channel[None, :]
    tl.store(state_pointer + place, state.to(tl.float16), mask=inside)
    tl.store(decay_pointer + place, decay.to(tl.float16), mask=inside)
    last = (row == CHUNK - 1)[:, None]
    end = (batch * tl.num_programs(1) + chunk) * D + channel
    tl.store(end_state_pointer + end, tl.sum(tl.where(last, state, 0.0), axis=0))
    tl.store(end_decay_pointer + end, tl.sum(tl.where(last, decay, 0.0), axis=0))


@triton.jit
def finish_chunks(
    state_pointer, decay_pointer, end_state_pointer, end_decay_pointer, gate_pointer, S, D,
    CHUNK: tl.constexpr, CHUNKS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    batch = tl.program_id(2).to(tl.int64)
    chunk = tl.program_id(1)
    channel = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    known = channel < D
    earlier = tl.arange(0, CHUNKS)
    end = (batch * tl.num_programs(1) + earlier[:, None]) * D + channel[None, :]
    before = (earlier < chunk)[:, None] & known[None, :]
    decays = tl.load(end_decay_pointer + end, mask=before, other=1.0)
    states = tl.load(end_state_pointer + end, mask=before, other=0.0)
    _, states = tl.associative_scan((decays, states), 0, compose)
    start = tl.sum(tl.where((earlier == CHUNKS - 1)[:, None], states, 0.0), axis=0)
    token = chunk * CHUNK + tl.arange(0, CHUNK)
    place = (batch * S + token[:, None]) * D + channel[None, :]
    inside = (token < S)[:, None] & known[None, :]
    state = tl.load(state_pointer + place, mask=inside, other=0.0).to(tl.float32)
    state += tl.load(decay_pointer + place, mask=inside, other=0.0).to(tl.float32) * start[None, :]
    gate = tl.load(gate_pointer + place, mask=inside, other=0.0).to(tl.float32)
    tl.store(gate_pointer + place, (gelu(gate) * state).to(tl.float16), mask=inside)


class Norm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width, dtype=torch.float16))

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        normed = torch.empty_like(h)
        rows, width = h.shape
        block = triton.next_power_of_2(width)
        together = max(1, 2048 // block)
        normalise_rows[(triton.cdiv(rows, together),)](
            h, self.weight, normed, rows, EPSILON, WIDTH=width, BLOCK=block, ROWS=together, num_warps=8
        )
        return normed


class Projection(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(outputs, inputs, dtype=torch.float16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight.T


class Gate(nn.Module):
    def __init__(self, blocks: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(blocks, width, width, dtype=torch.float16))
        self.bias = nn.Parameter(torch.zeros(blocks, width, dtype=torch.float16))


class RecurrentBlock(nn.Module):
    def __init__(self, width: int, blocks: int) -> None:
        super().__init__()
        self.input = Projection(width, width)
        self.gate = Projection(width, width)
        self.convolution = nn.Parameter(torch.zeros(width, TAPS, dtype=torch.float16))
        self.convolution_bias = nn.Parameter(torch.zeros(width, dtype=torch.float16))
        self.input_gate = Gate(blocks, width // blocks)
        self.recurrence_gate = Gate(blocks, width // blocks)
        self.decay = nn.Parameter(torch.zeros(width))
        self.output = Projection(width, width)

    def forward(self, normed: torch.Tensor, batch: int) -> torch.Tensor:
        """Return what `output` is to be applied to."""
        x, gate = self.input(normed), self.gate(normed)
        rows, width = x.shape
        tokens, block = rows // batch, self.input_gate.weight.shape[-1]
        chunk = 128 if tokens >= 1024 else 64
        chunks, columns = triton.cdiv(tokens, chunk), min(32, block)
        state, decay, convolved = torch.empty_like(x), torch.empty_like(x), torch.empty_like(x)
        end_state, end_decay = self.decay.new_empty(2, batch, chunks, width)
        convolve[(triton.cdiv(width, 128), triton.cdiv(tokens, 32), batch)](
            x, self.convolution, self.convolution_bias, convolved, tokens, width,
            TAPS=TAPS, TOKENS=32, CHANNELS=128, num_warps=4,
        )  # fmt: skip
        scan_chunks[(width // columns, chunks, batch)](
            convolved, self.input_gate.weight, self.input_gate.bias, self.recurrence_gate.weight,
            self.recurrence_gate.bias, self.decay, state, decay, end_state, end_decay,
            tokens, width, WIDTH=block, CHUNK=chunk, COLUMNS=columns, DEPTH=min(64, block),
            num_warps=8 if chunk == 128 else 4, num_stages=3,
        )  # fmt: skip
        finish_chunks[(triton.cdiv(width, 64), chunks, batch)](
            state, decay, end_state, end_decay, gate, tokens, width,
            CHUNK=chunk, CHUNKS=triton.next_power_of_2(chunks), COLUMNS=64, num_warps=4,
        )  # fmt: skip
        return gate


class AttentionBlock(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = Projection(width, width)
        self.key = Projection(width, width // heads)
        self.value = Projection(width, width // heads)
        self.output = Projection(width, width)

    def forward(self, normed: torch.Tensor, batch: int) -> torch.Tensor:
        """Return what `output` is to be applied to."""
        q, k, v = self.query(normed), self.key(normed), self.value(normed)
        rotate(q, batch, self.heads)
        rotate(k, batch, 1)
        q, k, v = (part.view(batch, len(q) // batch, -1, v.shape[1]).transpose(1, 2) for part in (q, k, v))
        attended = functional.scaled_dot_product_attention(q, k.expand_as(q), v.expand_as(q), is_causal=True)
        return attended.transpose(1, 2).reshape(len(normed), -1)


def rotate(x: torch.Tensor, batch: int, heads: int) -> None:
    """Turn the first half of every head of x [batch * tokens, heads * size] in place."""
    rows, width = x.shape
    rotate_heads[(triton.cdiv(rows, 16),)](
        x, rows, rows // batch, QUARTER=width // heads // 4, TOKENS=16, HEADS=heads, num_warps=4
    )


class FeedForward(nn.Module):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.gate = Projection(width, hidden)
        self.up = Projection(width, hidden)
        self.down = Projection(hidden, width)

    def forward(self, normed: torch.Tensor) -> torch.Tensor:
        """Return what `down` is to be applied to."""
        gate, up = self.gate(normed), self.up(normed)
        gate_values[(triton.cdiv(gate.numel(), 2048),)](gate, up, gate.numel(), BLOCK=2048, num_warps=8)
        return up


class Layer(nn.Module):
    def __init__(self, temporal: nn.Module, width: int, hidden: int) -> None:
        super().__init__()
        self.temporal_norm = Norm(width)
        self.temporal = temporal
        self.channel_norm = Norm(width)
        self.feed_forward = FeedForward(width, hidden)

    def forward(self, h: torch.Tensor, batch: int) -> torch.Tensor:
        mixed = self.temporal(self.temporal_norm(h), batch)
        h = torch.addmm(h, mixed, self.temporal.output.weight.T)
        return h.addmm_(self.feed_forward(self.channel_norm(h)), self.feed_forward.down.weight.T)


class ModelNew(nn.Module):
    """Two recurrent layers, then one with attention."""

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        blocks = [RecurrentBlock(width, heads), RecurrentBlock(width, heads), AttentionBlock(width, heads)]
        self.layers = nn.ModuleList(Layer(block, width, hidden) for block in blocks)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = x.view(-1, x.shape[-1])
        for layer in self.layers:
            h = layer(h, len(x))
        return h.view_as(x)
