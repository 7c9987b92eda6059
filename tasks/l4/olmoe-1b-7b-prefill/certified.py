# mypy: ignore-errors
"""Layers of OLMoE-1B-7B: a mixture of 64 experts in six kernels and without a word to the host.

Strategy: PyTorch's loop asks the device for every expert which tokens it has. Here one kernel multiplies a tile of
tokens by the router, picks the experts by repeated maxima in registers, and counts them with integer atomics, which
also give each pair of token and expert its rank among those of the expert. A second kernel turns ranks into places: rows
sorted by expert. Then two grouped products run over tiles of these rows; each program finds its expert from the 64
counts, and programs beyond the last tile end at once. The first product gathers its rows of tokens, multiplies them by
both halves of the weights and stores only silu(gate) * up; the second scales by the router's weight and stores a pair's
row where the last kernel, which adds a token's rows to the residual stream and norms the sum, reads them in order. The
ranks depend on chance, but a row's result does not depend on its place. Attention and its products stay with the
library; norm and rotation of queries and keys are one kernel.
"""

import math

import torch
import triton
import triton.language as tl
from torch import nn
from torch.nn import functional

LOG2_BASE = tl.constexpr(math.log2(10_000.0))
EPSILON = 1e-5


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
    weight = tl.load(weight_pointer + channel, mask=channel < WIDTH, other=0.0).to(tl.float32)
    tl.store(normed_pointer + place, (h * scale[:, None] * weight[None, :]).to(tl.float16), mask=inside)


@triton.jit
def normalise_heads(
    x_pointer, weight_pointer, S, epsilon, WIDTH: tl.constexpr, HEADS: tl.constexpr, HALF: tl.constexpr
):
    token = tl.program_id(0)
    head = tl.arange(0, HEADS)
    channel = tl.arange(0, HALF)
    within = head[:, None] * (2 * HALF) + channel[None, :]
    inside = (within < WIDTH) & (channel < HALF)[None, :]
    place = token.to(tl.int64) * WIDTH + within
    left = tl.load(x_pointer + place, mask=inside, other=0.0).to(tl.float32)
    right = tl.load(x_pointer + place + HALF, mask=inside, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(tl.sum(left * left + right * right, axis=1), axis=0) / WIDTH + epsilon)
    left *= scale * tl.load(weight_pointer + within, mask=inside, other=0.0).to(tl.float32)
    right *= scale * tl.load(weight_pointer + within + HALF, mask=inside, other=0.0).to(tl.float32)
    angle = (token % S).to(tl.float32) * tl.exp2(channel.to(tl.float32) * (-LOG2_BASE / HALF))
    cosine = tl.cos(angle)[None, :]
    sine = tl.sin(angle)[None, :]
    tl.store(x_pointer + place, (left * cosine - right * sine).to(tl.float16), mask=inside)
    tl.store(x_pointer + place + HALF, (right * cosine + left * sine).to(tl.float16), mask=inside)


@triton.jit
def route(
    x_pointer, router_pointer, weight_pointer, expert_pointer, rank_pointer, count_pointer, tokens, experts,
    D: tl.constexpr, CHOSEN: tl.constexpr, TOKENS: tl.constexpr, EXPERTS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    token = tl.program_id(0) * TOKENS + tl.arange(0, TOKENS)
    expert = tl.arange(0, EXPERTS)
    inside = token < tokens
    known = expert < experts
    logits = tl.zeros((TOKENS, EXPERTS), tl.float32)
    for start in range(0, D, DEPTH):
        term = start + tl.arange(0, DEPTH)
        x = tl.load(x_pointer + token[:, None] * D + term[None, :], mask=inside[:, None], other=0.0)
        router = tl.load(router_pointer + expert[None, :] * D + term[:, None], mask=known[None, :], other=0.0)
        logits = tl.dot(x, router, logits)
    logits = tl.where(known[None, :], logits, -float("inf"))
    likelihood = tl.exp(logits - tl.max(logits, axis=1)[:, None])
    likelihood = likelihood / tl.sum(likelihood, axis=1)[:, None]
    left = tl.where(known[None, :], likelihood, -1.0)
    # One maximum more than experts: the first that is not chosen sets the threshold.
    for _ in tl.static_range(CHOSEN):
        best = tl.argmax(left, axis=1)
        left = tl.where(expert[None, :] == best[:, None], -1.0, left)
    threshold = tl.max(left, axis=1)
    left = tl.where(known[None, :], likelihood, -1.0)
    for number in tl.static_range(CHOSEN):
        best = tl.argmax(left, axis=1)
        largest = tl.max(left, axis=1)
        left = tl.where(expert[None, :] == best[:, None], -1.0, left)
        rank = tl.atomic_add(count_pointer + best, 1, mask=inside)
        tl.store(weight_pointer + token * CHOSEN + number, largest - threshold, mask=inside)
        tl.store(expert_pointer + token * CHOSEN + number, best.to(tl.int32), mask=inside)
        tl.store(rank_pointer + token * CHOSEN + number, rank, mask=inside)


@triton.jit
def place_pairs(
    expert_pointer,
    rank_pointer,
    count_pointer,
    pair_pointer,
    pairs,
    experts,
    PAIRS: tl.constexpr,
    EXPERTS: tl.constexpr,
):
    pair = tl.program_id(0) * PAIRS + tl.arange(0, PAIRS)
    inside = pair < pairs
    expert = tl.load(expert_pointer + pair, mask=inside, other=0)
    rank = tl.load(rank_pointer + pair, mask=inside, other=0)
    every = tl.arange(0, EXPERTS)
    count = tl.load(count_pointer + every, mask=every < experts, other=0)
    earlier = tl.sum(tl.where(every[None, :] < expert[:, None], count[None, :], 0), axis=1)
    tl.store(pair_pointer + earlier + rank, pair, mask=inside)


@triton.jit
def find_tile(count_pointer, experts, tile, ROWS: tl.constexpr, EXPERTS: tl.constexpr):
    """Return the expert of a tile of rows, the first of its rows, and the row after the expert's last."""
    every = tl.arange(0, EXPERTS)
    count = tl.load(count_pointer + every, mask=every < experts, other=0)
    tiles = (count + ROWS - 1) // ROWS
    after = tl.cumsum(tiles, axis=0)
    expert = tl.sum((after <= tile).to(tl.int32), axis=0)
    before = every < expert
    first_tile = tl.sum(tl.where(before, tiles, 0), axis=0)
    first_row = tl.sum(tl.where(before, count, 0), axis=0)
    stop = first_row + tl.sum(tl.where(every == expert, count, 0), axis=0)
    return expert, first_row + (tile - first_tile) * ROWS, stop


@triton.jit
def enter_experts(
    x_pointer, weight_pointer, pair_pointer, count_pointer, hidden_pointer, experts, D, FF,
    CHOSEN: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, EXPERTS: tl.constexpr,
):  # fmt: skip
    expert, start, stop = find_tile(count_pointer, experts, tl.program_id(1), ROWS, EXPERTS)
    if expert < experts:
        row = start + tl.arange(0, ROWS)
        inside = row < stop
        token = tl.load(pair_pointer + row, mask=inside, other=0) // CHOSEN
        column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
        depth = tl.arange(0, DEPTH)
        x_pointers = x_pointer + token[:, None] * D + depth[None, :]
        weight_pointer += expert.to(tl.int64) * (2 * FF * D)
        gate_pointers = weight_pointer + column[None, :] * D + depth[:, None]
        gate = tl.zeros((ROWS, COLUMNS), tl.float32)
        up = tl.zeros((ROWS, COLUMNS), tl.float32)
        for _ in range(0, D, DEPTH):
            x = tl.load(x_pointers, mask=inside[:, None], other=0.0)
            gate = tl.dot(x, tl.load(gate_pointers), gate)
            up = tl.dot(x, tl.load(gate_pointers + FF * D), up)
            x_pointers += DEPTH
            gate_pointers += DEPTH
        hidden = gate * tl.sigmoid(gate) * up
        place = row.to(tl.int64)[:, None] * FF + column[None, :]
        tl.store(hidden_pointer + place, hidden.to(tl.float16), mask=inside[:, None])


@triton.jit
def leave_experts(
    hidden_pointer, weight_pointer, pair_pointer, count_pointer, share_pointer, result_pointer, experts, D, FF,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, EXPERTS: tl.constexpr,
):  # fmt: skip
    expert, start, stop = find_tile(count_pointer, experts, tl.program_id(1), ROWS, EXPERTS)
    if expert < experts:
        row = start + tl.arange(0, ROWS)
        inside = row < stop
        column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
        depth = tl.arange(0, DEPTH)
        hidden_pointers = hidden_pointer + row.to(tl.int64)[:, None] * FF + depth[None, :]
        weight_pointers = weight_pointer + expert.to(tl.int64) * (D * FF) + column[None, :] * FF + depth[:, None]
        result = tl.zeros((ROWS, COLUMNS), tl.float32)
        for _ in range(0, FF, DEPTH):
            hidden = tl.load(hidden_pointers, mask=inside[:, None], other=0.0)
            result = tl.dot(hidden, tl.load(weight_pointers), result)
            hidden_pointers += DEPTH
            weight_pointers += DEPTH
        pair = tl.load(pair_pointer + row, mask=inside, other=0)
        result *= tl.load(share_pointer + pair, mask=inside, other=0.0)[:, None]
        place = pair.to(tl.int64)[:, None] * D + column[None, :]
        tl.store(result_pointer + place, result.to(tl.float16), mask=inside[:, None])


@triton.jit
def combine(
    h_pointer, result_pointer, weight_pointer, normed_pointer, rows, epsilon, CHOSEN: tl.constexpr,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr, NORMALISE: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    channel = tl.arange(0, BLOCK)
    known = channel < WIDTH
    inside = (row < rows)[:, None] & known[None, :]
    row = row.to(tl.int64)[:, None]
    place = row * WIDTH + channel[None, :]
    h = tl.load(h_pointer + place, mask=inside, other=0.0).to(tl.float32)
    for number in tl.static_range(CHOSEN):
        pair = (row * CHOSEN + number) * WIDTH + channel[None, :]
        h += tl.load(result_pointer + pair, mask=inside, other=0.0).to(tl.float32)
    tl.store(h_pointer + place, h.to(tl.float16), mask=inside)
    if NORMALISE:
        weight = tl.load(weight_pointer + channel, mask=known, other=0.0).to(tl.float32)
        h = h * tl.rsqrt(tl.sum(h * h, axis=1) / WIDTH + epsilon)[:, None] * weight[None, :]
        tl.store(normed_pointer + place, h.to(tl.float16), mask=inside)


class Norm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width, dtype=torch.float16))

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        (rows, width), together = h.shape, count_rows(h.shape[1])
        normed = torch.empty_like(h)
        normalise_rows[(triton.cdiv(rows, together),)](
            h, self.weight, normed, rows, EPSILON, WIDTH=width,
            BLOCK=triton.next_power_of_2(width), ROWS=together, num_warps=4,
        )  # fmt: skip
        return normed


def count_rows(width: int) -> int:
    """Return how many rows one program normalises: several only where rows are short."""
    return max(1, 2048 // triton.next_power_of_2(width))


class Projection(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(outputs, inputs, dtype=torch.float16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight.T


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = Projection(width, width)
        self.key = Projection(width, width)
        self.value = Projection(width, width)
        self.output = Projection(width, width)
        self.query_norm = Norm(width)
        self.key_norm = Norm(width)

    def forward(self, normed: torch.Tensor, batch: int) -> torch.Tensor:
        """Return what `output` is to be applied to."""
        rows, width = normed.shape
        q, k, v = self.query(normed), self.key(normed), self.value(normed)
        for x, norm in ((q, self.query_norm), (k, self.key_norm)):
            normalise_heads[(rows,)](
                x, norm.weight, rows // batch, EPSILON, WIDTH=width, HEADS=triton.next_power_of_2(self.heads),
                HALF=width // self.heads // 2, num_warps=4,
            )  # fmt: skip
        q, k, v = (part.view(batch, rows // batch, self.heads, -1).transpose(1, 2) for part in (q, k, v))
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return attended.transpose(1, 2).reshape(rows, width)


class Mixture(nn.Module):
    def __init__(self, width: int, experts: int, chosen: int, hidden: int) -> None:
        super().__init__()
        self.chosen = chosen
        self.router = Projection(width, experts)
        self.gate_up = nn.Parameter(torch.zeros(experts, 2 * hidden, width, dtype=torch.float16))
        self.down = nn.Parameter(torch.zeros(experts, width, hidden, dtype=torch.float16))

    def route(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return weights by pair, pairs sorted by expert, and counts by expert; pair p is choice p % chosen of a token."""
        (tokens, width), experts = x.shape, len(self.down)
        pairs = tokens * self.chosen
        shares = x.new_empty(pairs, dtype=torch.float32)
        expert, rank, pair = x.new_empty(3, pairs, dtype=torch.int32)
        counts = x.new_zeros(experts, dtype=torch.int32)
        block = max(16, triton.next_power_of_2(experts))
        route[(triton.cdiv(tokens, 32),)](
            x, self.router.weight, shares, expert, rank, counts, tokens, experts, D=width, CHOSEN=self.chosen,
            TOKENS=32, EXPERTS=block, DEPTH=min(128, width), num_warps=4, num_stages=3,
        )  # fmt: skip
        place_pairs[(triton.cdiv(pairs, 128),)](
            expert, rank, counts, pair, pairs, experts, PAIRS=128, EXPERTS=block, num_warps=4
        )
        return shares, pair, counts

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return [tokens, chosen, width]: what each chosen expert adds to a token."""
        (tokens, width), experts, ff = x.shape, len(self.down), self.down.shape[2]
        shares, pair, counts = self.route(x)
        hidden = x.new_empty(len(pair), ff)
        result = x.new_empty(len(pair), width)
        rows, half_columns, columns, depth, warps, stages = choose_tiling(x.device, ff)
        block = max(16, triton.next_power_of_2(experts))
        # Each expert may leave one tile partly filled.
        tiles = len(pair) // rows + min(experts, len(pair))
        sizes = {"ROWS": rows, "DEPTH": depth, "EXPERTS": block, "num_warps": warps, "num_stages": stages}
        enter_experts[(ff // half_columns, tiles)](
            x, self.gate_up, pair, counts, hidden, experts, width, ff,
            CHOSEN=self.chosen, COLUMNS=half_columns, **sizes,
        )  # fmt: skip
        leave_experts[(width // columns, tiles)](
            hidden, self.down, pair, counts, shares, result, experts, width, ff, COLUMNS=columns, **sizes
        )
        return result


def choose_tiling(device: torch.device, ff: int) -> tuple[int, int, int, int, int, int]:
    """Return rows, columns of either half, columns, depth, warps and stages of the experts' products."""
    if ff < 128:
        return 16, 16, 32, 32, 4, 2
    if torch.cuda.get_device_properties(device).major >= 9:
        return 128, 128, 256, 64, 8, 3
    return 128, 64, 128, 32, 8, 4


class Layer(nn.Module):
    def __init__(self, width: int, heads: int, experts: int, chosen: int, hidden: int) -> None:
        super().__init__()
        self.attention_norm = Norm(width)
        self.attention = Attention(width, heads)
        self.mixture_norm = Norm(width)
        self.mixture = Mixture(width, experts, chosen, hidden)


class ModelNew(nn.Module):
    """Several layers of attention and a mixture of experts."""

    def __init__(self, layers: int, width: int, heads: int, experts: int, chosen: int, hidden: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(width, heads, experts, chosen, hidden) for _ in range(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = x.view(-1, x.shape[-1])
        normed = self.layers[0].attention_norm(h)
        for layer, following in zip(self.layers, [*self.layers[1:], None], strict=True):
            h = torch.addmm(h, layer.attention(normed, len(x)), layer.attention.output.weight.T)
            results = layer.mixture(layer.mixture_norm(h))
            add_results(h, results, normed, layer.mixture.chosen, following.attention_norm if following else None)
        return h.view_as(x)


def add_results(h: torch.Tensor, results: torch.Tensor, normed: torch.Tensor, chosen: int, norm: Norm | None) -> None:
    """Add each token's rows of `results` to h, and write the norm of the sum to `normed` when there is a norm."""
    (rows, width), together = h.shape, count_rows(h.shape[1])
    combine[(triton.cdiv(rows, together),)](
        h, results, h if norm is None else norm.weight, normed, rows, EPSILON, CHOSEN=chosen, WIDTH=width,
        BLOCK=triton.next_power_of_2(width), ROWS=together, NORMALISE=norm is not None, num_warps=8,
    )  # fmt: skip
