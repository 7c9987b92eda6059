# mypy: ignore-errors
"""A pair of layers of Gemma-2-9B: the library's products, Triton for attention and everything else.

Strategy: the cap on the logits keeps PyTorch from its fused attention, so it moves matrices of tokens x tokens through
memory several times. Here one program attends with a tile of queries of one head: keys and values stream past it, the
cap is one exponential and one division in registers, tiles above the diagonal or outside the window are never visited,
and only those on either edge are masked. Programs start with the longest rows, so that the short ones fill the gaps at
the end. The norm after a branch, the sum with the residual stream and the norm before the next branch are one pass;
rotation and the gated activation are one pass each, in place.
"""

import math

import torch
import triton
import triton.language as tl
from torch import nn

LOG2_BASE = tl.constexpr(math.log2(10_000.0))
GELU_FACTOR = tl.constexpr(2.0 * math.sqrt(2.0 / math.pi))
# Logits are kept times log2(e), so that weights are powers of two.
CAP = tl.constexpr(50.0 * math.log2(math.e))
CAP_SLOPE = tl.constexpr(2.0 * math.log2(math.e) / 50.0)
EPSILON = 1e-6


@triton.jit
def normalise_rows(
    x_pointer, weight_pointer, h_pointer, next_weight_pointer, sum_pointer, normed_pointer, rows, epsilon,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr, ADD: tl.constexpr, NORMALISE: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    channel = tl.arange(0, BLOCK)
    known = channel < WIDTH
    inside = (row < rows)[:, None] & known[None, :]
    place = row.to(tl.int64)[:, None] * WIDTH + channel[None, :]
    x = tl.load(x_pointer + place, mask=inside, other=0.0).to(tl.float32)
    if ADD:
        weight = 1.0 + tl.load(weight_pointer + channel, mask=known, other=0.0).to(tl.float32)
        x = x * tl.rsqrt(tl.sum(x * x, axis=1) / WIDTH + epsilon)[:, None] * weight[None, :]
        x = (x + tl.load(h_pointer + place, mask=inside, other=0.0).to(tl.float32)).to(tl.float16)
        tl.store(sum_pointer + place, x, mask=inside)
        x = x.to(tl.float32)
    if NORMALISE:
        weight = 1.0 + tl.load(next_weight_pointer + channel, mask=known, other=0.0).to(tl.float32)
        x = x * tl.rsqrt(tl.sum(x * x, axis=1) / WIDTH + epsilon)[:, None] * weight[None, :]
        tl.store(normed_pointer + place, x.to(tl.float16), mask=inside)


@triton.jit
def gate_values(gate_pointer, up_pointer, count, BLOCK: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place < count
    gate = tl.load(gate_pointer + place, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(up_pointer + place, mask=inside, other=0.0).to(tl.float32)
    gate *= tl.sigmoid(GELU_FACTOR * (gate + 0.044715 * gate * gate * gate))
    tl.store(up_pointer + place, (gate * up).to(tl.float16), mask=inside)


@triton.jit
def rotate_heads(x_pointer, rows, HALF: tl.constexpr, TOKENS: tl.constexpr, HEADS: tl.constexpr):
    token = tl.program_id(0) * TOKENS + tl.arange(0, TOKENS)
    channel = tl.arange(0, HALF)
    inside = (token < rows)[:, None]
    # Angles are the same for all heads: the loop spares sines and cosines.
    angle = token.to(tl.float32)[:, None] * tl.exp2(channel.to(tl.float32) * (-LOG2_BASE / HALF))[None, :]
    cosine = tl.cos(angle)
    sine = tl.sin(angle)
    for head in range(HEADS):
        place = (token.to(tl.int64)[:, None] * HEADS + head) * (2 * HALF) + channel[None, :]
        left = tl.load(x_pointer + place, mask=inside, other=0.0).to(tl.float32)
        right = tl.load(x_pointer + place + HALF, mask=inside, other=0.0).to(tl.float32)
        tl.store(x_pointer + place, (left * cosine - right * sine).to(tl.float16), mask=inside)
        tl.store(x_pointer + place + HALF, (right * cosine + left * sine).to(tl.float16), mask=inside)


@triton.jit
def attend_keys(
    q, token, k_pointer, v_pointer, stride, start, stop, S, window, scale, attended, largest, total,
    SIZE: tl.constexpr, KEYS: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    channel = tl.arange(0, SIZE)
    for first in range(start, stop, KEYS):
        key = first + tl.arange(0, KEYS)
        place = key[:, None].to(tl.int64) * stride + channel[None, :]
        if MASKED:
            k = tl.load(k_pointer + place, mask=(key < S)[:, None], other=0.0)
        else:
            k = tl.load(k_pointer + place)
        power = tl.exp2(tl.dot(q, tl.trans(k)) * scale)
        # 50 tanh(x / 50) in terms of one exponential, which may overflow.
        logits = CAP - 2.0 * CAP / (power + 1.0)
        if MASKED:
            distance = token[:, None] - key[None, :]
            logits = tl.where((distance >= 0) & (distance < window), logits, -float("inf"))
        raised = tl.maximum(largest, tl.max(logits, axis=1))
        weights = tl.exp2(logits - raised[:, None])
        shrink = tl.exp2(largest - raised)
        total = total * shrink + tl.sum(weights, axis=1)
        if MASKED:
            v = tl.load(v_pointer + place, mask=(key < S)[:, None], other=0.0)
        else:
            v = tl.load(v_pointer + place)
        attended = tl.dot(weights.to(tl.float16), v, attended * shrink[:, None])
        largest = raised
    return attended, largest, total


@triton.jit
def attend(
    q_pointer, k_pointer, v_pointer, attended_pointer, S, window, heads, group, scale,
    SIZE: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(0)
    tile = tl.num_programs(1) - 1 - tl.program_id(1)
    token = tile * QUERIES + tl.arange(0, QUERIES)
    place = token[:, None].to(tl.int64) * (heads * SIZE) + head * SIZE + tl.arange(0, SIZE)[None, :]
    inside = (token < S)[:, None]
    q = tl.load(q_pointer + place, mask=inside, other=0.0)
    stride = heads // group * SIZE
    k_pointer += head // group * SIZE
    v_pointer += head // group * SIZE

    # Keys before `opened` are outside the window of some query, and keys from `closed` on are later than some.
    begin = tl.maximum(0, tile * QUERIES - window + 1) // KEYS * KEYS
    opened = tl.cdiv(tl.maximum(0, (tile + 1) * QUERIES - window), KEYS) * KEYS
    closed = tile * QUERIES // KEYS * KEYS
    opened = tl.minimum(opened, closed)
    attended = tl.zeros((QUERIES, SIZE), tl.float32)
    # No logit is lower than the cap, so a row without any key so far divides nothing by zero.
    largest = tl.zeros((QUERIES,), tl.float32) - CAP
    total = tl.zeros((QUERIES,), tl.float32)
    attended, largest, total = attend_keys(
        q, token, k_pointer, v_pointer, stride, begin, opened, S, window, scale, attended, largest, total,
        SIZE=SIZE, KEYS=KEYS, MASKED=True,
    )  # fmt: skip
    attended, largest, total = attend_keys(
        q, token, k_pointer, v_pointer, stride, opened, closed, S, window, scale, attended, largest, total,
        SIZE=SIZE, KEYS=KEYS, MASKED=False,
    )  # fmt: skip
    attended, largest, total = attend_keys(
        q, token, k_pointer, v_pointer, stride, closed, tl.minimum(S, (tile + 1) * QUERIES), S, window, scale,
        attended, largest, total, SIZE=SIZE, KEYS=KEYS, MASKED=True,
    )  # fmt: skip
    tl.store(attended_pointer + place, (attended / total[:, None]).to(tl.float16), mask=inside)


class Norm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width, dtype=torch.float16))


class Projection(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(outputs, inputs, dtype=torch.float16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight.T


def count_rows(width: int) -> int:
    """Return how many rows one program normalises: several only where rows are short."""
    return max(1, 2048 // triton.next_power_of_2(width))


def normalise(h: torch.Tensor, norm: Norm) -> torch.Tensor:
    """Return norm(h)."""
    (rows, width), together = h.shape, count_rows(h.shape[1])
    normed = torch.empty_like(h)
    normalise_rows[(triton.cdiv(rows, together),)](
        h, norm.weight, h, norm.weight, normed, normed, rows, EPSILON, WIDTH=width,
        BLOCK=triton.next_power_of_2(width), ROWS=together, ADD=False, NORMALISE=True, num_warps=8,
    )  # fmt: skip
    return normed


def add_branch(
    branch: torch.Tensor, norm: Norm, h: torch.Tensor, following: Norm | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return h + norm(branch), and what the following norm makes of it, written over the branch."""
    (rows, width), together = h.shape, count_rows(h.shape[1])
    total = torch.empty_like(h)
    weight = norm.weight if following is None else following.weight
    normalise_rows[(triton.cdiv(rows, together),)](
        branch, norm.weight, h, weight, total, branch, rows, EPSILON, WIDTH=width,
        BLOCK=triton.next_power_of_2(width), ROWS=together, ADD=True, NORMALISE=following is not None, num_warps=8,
    )  # fmt: skip
    return total, branch


def rotate(x: torch.Tensor, size: int) -> None:
    """Turn every head of x [tokens, heads * size] in place."""
    rows, width = x.shape
    rotate_heads[(triton.cdiv(rows, 8),)](x, rows, HALF=size // 2, TOKENS=8, HEADS=width // size, num_warps=4)


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, key_heads: int, size: int, window: int | None) -> None:
        super().__init__()
        self.size, self.window, self.heads, self.group = size, window, heads, heads // key_heads
        self.query = Projection(width, heads * size)
        self.key = Projection(width, key_heads * size)
        self.value = Projection(width, key_heads * size)
        self.output = Projection(heads * size, width)

    def forward(self, normed: torch.Tensor) -> torch.Tensor:
        q, k, v = self.query(normed), self.key(normed), self.value(normed)
        rotate(q, self.size)
        rotate(k, self.size)
        tokens = len(q)
        attended = torch.empty_like(q)
        queries, keys, warps, stages = choose_tiling(q.device, tokens)
        attend[(self.heads, triton.cdiv(tokens, queries))](
            q, k, v, attended, tokens, self.window or tokens, self.heads, self.group,
            CAP_SLOPE.value / math.sqrt(self.size), SIZE=self.size, QUERIES=queries, KEYS=keys,
            num_warps=warps, num_stages=stages,
        )  # fmt: skip
        return self.output(attended)


def choose_tiling(device: torch.device, tokens: int) -> tuple[int, int, int, int]:
    """Return queries and keys of a tile, warps and stages: as much as registers and shared memory hold."""
    if tokens < 128:
        return 32, 16, 4, 2
    if torch.cuda.get_device_properties(device).major >= 9:
        return 128, 64, 8, 2
    return 64, 32, 8, 2


class FeedForward(nn.Module):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.gate = Projection(width, hidden)
        self.up = Projection(width, hidden)
        self.down = Projection(hidden, width)

    def forward(self, normed: torch.Tensor) -> torch.Tensor:
        gate, up = self.gate(normed), self.up(normed)
        gate_values[(triton.cdiv(gate.numel(), 2048),)](gate, up, gate.numel(), BLOCK=2048, num_warps=8)
        return self.down(up)


class Layer(nn.Module):
    def __init__(self, attention: Attention, width: int, hidden: int) -> None:
        super().__init__()
        self.input_norm = Norm(width)
        self.attention = attention
        self.attention_norm = Norm(width)
        self.feed_forward_norm = Norm(width)
        self.feed_forward = FeedForward(width, hidden)
        self.output_norm = Norm(width)


class ModelNew(nn.Module):
    """A layer with a window and a layer without."""

    def __init__(self, width: int, heads: int, key_heads: int, size: int, hidden: int, window: int) -> None:
        super().__init__()
        kinds = [Attention(width, heads, key_heads, size, reach) for reach in (window, None)]
        self.layers = nn.ModuleList(Layer(attention, width, hidden) for attention in kinds)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = x.view(-1, x.shape[-1])
        normed = normalise(h, self.layers[0].input_norm)
        for layer, following in zip(self.layers, [*self.layers[1:], None], strict=True):
            h, normed = add_branch(layer.attention(normed), layer.attention_norm, h, layer.feed_forward_norm)
            norm = None if following is None else following.input_norm
            h, normed = add_branch(layer.feed_forward(normed), layer.output_norm, h, norm)
        return h.view_as(x)
