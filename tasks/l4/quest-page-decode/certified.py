# mypy: ignore-errors
"""One decoding step of LongChat-7B layers over chosen pages of the cache, entirely in Triton.

Strategy: a step is bound by memory, so every byte of weights, bounds and kept pages is read once, by enough programs to
keep the whole memory busy. The linear layers have four rows: a program streams some rows of the weights past them, on
tensor cores whose other rows stay empty; where there are too few rows of weights, it takes a half of each, and the
kernel that reads the result adds the halves in fp32. Bounds are computed page by page; the smallest bound that is kept is
found bit by bit, by counting the bounds that reach it, which needs no sorting. Attention then walks the list of pages
where they lie, several programs a head, and one more kernel merges their parts with the new token's own key and value.
"""

import math

import torch
import triton
import triton.language as tl
from torch import nn

LOG2_BASE = tl.constexpr(math.log2(10_000.0))
LOG2_E = math.log2(math.e)
EPSILON = 1e-5
ROWS = 16


@triton.jit
def add_and_normalise(
    h_pointer, parts_pointer, weight_pointer, sum_pointer, normed_pointer, epsilon,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr, PARTS: tl.constexpr, NORMALISE: tl.constexpr,
):  # fmt: skip
    channel = tl.arange(0, BLOCK)
    inside = channel < WIDTH
    place = tl.program_id(0) * WIDTH + channel
    h = tl.load(h_pointer + place, mask=inside, other=0.0).to(tl.float32)
    for part in tl.static_range(PARTS):
        h += tl.load(parts_pointer + part * tl.num_programs(0) * WIDTH + place, mask=inside, other=0.0)
    h = h.to(tl.float16)
    if PARTS > 0:
        tl.store(sum_pointer + place, h, mask=inside)
    if NORMALISE:
        h = h.to(tl.float32)
        weight = tl.load(weight_pointer + channel, mask=inside, other=0.0).to(tl.float32)
        scale = tl.rsqrt(tl.sum(h * h, axis=0) / WIDTH + epsilon)
        tl.store(normed_pointer + place, (h * scale * weight).to(tl.float16), mask=inside)


@triton.jit
def multiply(
    x_pointer, weight_pointer, batch, column, inputs, start, stop,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """Return x [batch, inputs] times some rows of a weight, over the terms from `start` to `stop`."""
    row = tl.arange(0, ROWS)
    y = tl.zeros((ROWS, COLUMNS), tl.float32)
    for first in range(start, stop, DEPTH):
        term = first + tl.arange(0, DEPTH)
        x = tl.load(x_pointer + row[:, None] * inputs + term[None, :], mask=(row < batch)[:, None], other=0.0)
        y = tl.dot(x, tl.load(weight_pointer + column[None, :] * inputs + term[:, None]), y)
    return y


@triton.jit
def project_heads(
    x_pointer, query_pointer, key_pointer, value_pointer, y_pointer, batch, D,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    part = tl.program_id(1)
    # One branch for each weight: a pointer chosen by arithmetic would lose what is known of its alignment.
    if part == 0:
        y = multiply(x_pointer, query_pointer, batch, column, D, 0, D, ROWS, COLUMNS, DEPTH)
    elif part == 1:
        y = multiply(x_pointer, key_pointer, batch, column, D, 0, D, ROWS, COLUMNS, DEPTH)
    else:
        y = multiply(x_pointer, value_pointer, batch, column, D, 0, D, ROWS, COLUMNS, DEPTH)
    row = tl.arange(0, ROWS)
    place = (part * batch + row[:, None]) * D + column[None, :]
    tl.store(y_pointer + place, y.to(tl.float16), mask=(row < batch)[:, None])


@triton.jit
def enter_hidden(
    x_pointer, gate_pointer, up_pointer, y_pointer, batch, D, FF,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    row = tl.arange(0, ROWS)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    gate = tl.zeros((ROWS, COLUMNS), tl.float32)
    up = tl.zeros((ROWS, COLUMNS), tl.float32)
    for first in range(0, D, DEPTH):
        term = first + tl.arange(0, DEPTH)
        x = tl.load(x_pointer + row[:, None] * D + term[None, :], mask=(row < batch)[:, None], other=0.0)
        place = column[None, :] * D + term[:, None]
        gate = tl.dot(x, tl.load(gate_pointer + place), gate)
        up = tl.dot(x, tl.load(up_pointer + place), up)
    y = gate * tl.sigmoid(gate) * up
    tl.store(y_pointer + row[:, None] * FF + column[None, :], y.to(tl.float16), mask=(row < batch)[:, None])


@triton.jit
def project_parts(
    x_pointer, weight_pointer, parts_pointer, batch, inputs, outputs, part_length,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    part = tl.program_id(1)
    start = part * part_length
    stop = tl.minimum(start + part_length, inputs)
    y = multiply(x_pointer, weight_pointer, batch, column, inputs, start, stop, ROWS, COLUMNS, DEPTH)
    row = tl.arange(0, ROWS)
    place = (part * batch + row[:, None]) * outputs + column[None, :]
    tl.store(parts_pointer + place, y, mask=(row < batch)[:, None])


@triton.jit
def load_rotated(x_pointer, position, HALF: tl.constexpr):
    """Return both halves of one head, turned by its position and rounded to fp16, in fp32."""
    channel = tl.arange(0, HALF)
    left = tl.load(x_pointer + channel).to(tl.float32)
    right = tl.load(x_pointer + HALF + channel).to(tl.float32)
    angle = position * tl.exp2(channel.to(tl.float32) * (-LOG2_BASE / HALF))
    cosine = tl.cos(angle)
    sine = tl.sin(angle)
    turned = (left * cosine - right * sine).to(tl.float16).to(tl.float32)
    return turned, (right * cosine + left * sine).to(tl.float16).to(tl.float32)


@triton.jit
def sum_bounds(q, kmin_pointer, kmax_pointer, place, inside):
    kmin = tl.load(kmin_pointer + place, mask=inside, other=0.0).to(tl.float32)
    kmax = tl.load(kmax_pointer + place, mask=inside, other=0.0).to(tl.float32)
    return tl.sum(tl.maximum(q[None, :] * kmin, q[None, :] * kmax), axis=1)


@triton.jit
def bound_pages(
    q_pointer, kmin_pointer, kmax_pointer, bound_pointer, pages, position, HALF: tl.constexpr, PAGES: tl.constexpr
):
    head = tl.program_id(1).to(tl.int64)
    page = tl.program_id(0) * PAGES + tl.arange(0, PAGES)
    inside = page < pages
    left, right = load_rotated(q_pointer + head * (2 * HALF), position, HALF)
    place = (head * pages + page[:, None]) * (2 * HALF) + tl.arange(0, HALF)[None, :]
    bound = sum_bounds(left, kmin_pointer, kmax_pointer, place, inside[:, None])
    bound += sum_bounds(right, kmin_pointer, kmax_pointer, place + HALF, inside[:, None])
    # The last page is kept whatever its bound.
    bound = tl.where(page == pages - 1, float("inf"), bound)
    tl.store(bound_pointer + head * pages + page, bound, mask=inside)


@triton.jit
def keep_pages(bound_pointer, kept_pointer, pages, kept, PAGES: tl.constexpr):
    """List the pages with the largest bounds in their order; of equal bounds the first ones."""
    head = tl.program_id(0).to(tl.int64)
    page = tl.arange(0, PAGES)
    bound = tl.load(bound_pointer + head * pages + page, mask=page < pages, other=-float("inf"))
    # Integers in the order of the bounds; a negative zero is equal to zero.
    bits = (bound + 0.0).to(tl.int32, bitcast=True)
    key = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    # The largest threshold that enough pages reach, bit by bit.
    threshold = tl.where(tl.sum((key >= 0).to(tl.int32), axis=0) >= kept, 0, -2147483648)
    for step in range(31):
        raised = threshold | (1 << (30 - step))
        threshold = tl.where(tl.sum((key >= raised).to(tl.int32), axis=0) >= kept, raised, threshold)
    above = key > threshold
    equal = key == threshold
    wanted = kept - tl.sum(above.to(tl.int32), axis=0)
    chosen = above | (equal & (tl.cumsum(equal.to(tl.int32), axis=0) <= wanted))
    place = tl.cumsum(chosen.to(tl.int32), axis=0) - 1
    tl.store(kept_pointer + head * kept + place, page, mask=chosen & (page < pages))


@triton.jit
def attend_pages(
    q_pointer, k_pointer, v_pointer, kept_pointer, part_pointer, largest_pointer, total_pointer,
    T, kept, position, scale,
    PAGE: tl.constexpr, HALF: tl.constexpr, TOKENS: tl.constexpr, PART: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1).to(tl.int64)
    part = tl.program_id(0)
    left, right = load_rotated(q_pointer + head * (2 * HALF), position, HALF)
    half = tl.arange(0, HALF)
    channel = tl.arange(0, 2 * HALF)
    k_pointer += head * T * (2 * HALF)
    v_pointer += head * T * (2 * HALF)
    attended = tl.zeros((2 * HALF,), tl.float32)
    largest = -float("inf")
    total = 0.0
    for first in range(part * PART, tl.minimum((part + 1) * PART, kept * PAGE), TOKENS):
        slot = first + tl.arange(0, TOKENS)
        inside = (slot < (part + 1) * PART) & (slot < kept * PAGE)
        page = tl.load(kept_pointer + head * kept + slot // PAGE, mask=inside, other=0)
        place = (page * PAGE + slot % PAGE)[:, None] * (2 * HALF)
        # All loads before any sum, so that they are under way together.
        k_left = tl.load(k_pointer + place + half[None, :], mask=inside[:, None], other=0.0)
        k_right = tl.load(k_pointer + place + HALF + half[None, :], mask=inside[:, None], other=0.0)
        v = tl.load(v_pointer + place + channel[None, :], mask=inside[:, None], other=0.0)
        logits = tl.sum(k_left.to(tl.float32) * left[None, :] + k_right.to(tl.float32) * right[None, :], axis=1)
        logits = tl.where(inside, logits * scale, -float("inf"))
        raised = tl.maximum(largest, tl.max(logits, axis=0))
        weights = tl.exp2(logits - raised)
        shrink = tl.exp2(largest - raised)
        attended = attended * shrink + tl.sum(weights[:, None] * v.to(tl.float32), axis=0)
        total = total * shrink + tl.sum(weights, axis=0)
        largest = raised
    place = head * tl.num_programs(0) + part
    tl.store(part_pointer + place * (2 * HALF) + channel, attended)
    tl.store(largest_pointer + place, largest)
    tl.store(total_pointer + place, total)


@triton.jit
def merge_parts(
    q_pointer, new_k_pointer, new_v_pointer, part_pointer, largest_pointer, total_pointer, attended_pointer,
    parts, position, scale, HALF: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(0)
    left, right = load_rotated(q_pointer + head * (2 * HALF), position, HALF)
    new_left, new_right = load_rotated(new_k_pointer + head * (2 * HALF), position, HALF)
    own = (tl.sum(left * new_left, axis=0) + tl.sum(right * new_right, axis=0)) * scale
    part = tl.arange(0, PARTS)
    channel = tl.arange(0, 2 * HALF)
    inside = part < parts
    largest = tl.load(largest_pointer + head * parts + part, mask=inside, other=-float("inf"))
    total = tl.load(total_pointer + head * parts + part, mask=inside, other=0.0)
    raised = tl.maximum(tl.max(largest, axis=0), own)
    shrink = tl.exp2(largest - raised)
    own = tl.exp2(own - raised)
    place = (head * parts + part[:, None]) * (2 * HALF) + channel[None, :]
    values = tl.load(part_pointer + place, mask=inside[:, None], other=0.0)
    attended = tl.sum(values * shrink[:, None], axis=0)
    attended += own * tl.load(new_v_pointer + head * (2 * HALF) + channel).to(tl.float32)
    attended = attended / (tl.sum(total * shrink, axis=0) + own)
    tl.store(attended_pointer + head * (2 * HALF) + channel, attended.to(tl.float16))


class Norm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width, dtype=torch.float16))


class Projection(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(outputs, inputs, dtype=torch.float16))

    def project(self, x: torch.Tensor) -> torch.Tensor:
        """Return x times the weight in fp32 as parts [2, batch, outputs] that have to be added."""
        batch, (outputs, inputs) = len(x), self.weight.shape
        parts = x.new_empty(2, batch, outputs, dtype=torch.float32)
        depth = choose_depth(inputs)
        length = triton.cdiv(triton.cdiv(inputs, depth), 2) * depth
        project_parts[(outputs // 16, 2)](
            x, self.weight, parts, batch, inputs, outputs, length,
            ROWS=ROWS, COLUMNS=16, DEPTH=depth, num_warps=4, num_stages=4,
        )  # fmt: skip
        return parts


def choose_depth(inputs: int) -> int:
    """Return how many terms a program multiplies at a time: the largest power of two up to 256 that divides them."""
    return min(256, inputs & -inputs)


class PagedAttention(nn.Module):
    def __init__(self, width: int, heads: int, kept: int) -> None:
        super().__init__()
        self.heads, self.kept = heads, kept
        self.query = Projection(width, width)
        self.key = Projection(width, width)
        self.value = Projection(width, width)
        self.output = Projection(width, width)

    def choose(self, q: torch.Tensor, kmin: torch.Tensor, kmax: torch.Tensor, tokens: int) -> torch.Tensor:
        """Return the kept pages [batch * heads, kept]: those with the largest bounds."""
        batch, heads, pages, size = kmin.shape
        bounds = q.new_empty(batch * heads, pages, dtype=torch.float32)
        kept = q.new_empty(batch * heads, self.kept, dtype=torch.int32)
        bound_pages[(triton.cdiv(pages, 32), batch * heads)](
            q, kmin, kmax, bounds, pages, float(tokens), HALF=size // 2, PAGES=32, num_warps=4
        )
        keep_pages[(batch * heads,)](
            bounds, kept, pages, self.kept, PAGES=triton.next_power_of_2(pages), num_warps=4
        )
        return kept

    def forward(
        self, x: torch.Tensor, k: torch.Tensor, v: torch.Tensor, kmin: torch.Tensor, kmax: torch.Tensor
    ) -> torch.Tensor:
        (batch, width), tokens, size = x.shape, k.shape[2], k.shape[3]
        page, rows, scale = tokens // kmin.shape[2], batch * self.heads, LOG2_E / math.sqrt(size)
        projected = x.new_empty(3, batch, width)
        project_heads[(width // 16, 3)](
            x, self.query.weight, self.key.weight, self.value.weight, projected, batch, width,
            ROWS=ROWS, COLUMNS=16, DEPTH=choose_depth(width), num_warps=4, num_stages=4,
        )  # fmt: skip
        q, new_k, new_v = projected
        kept = self.choose(q, kmin, kmax, tokens)
        length = max(32, triton.next_power_of_2(self.kept * page) // 8)
        parts = triton.cdiv(self.kept * page, length)
        partial = x.new_empty(rows, parts, size, dtype=torch.float32)
        largest, total = x.new_empty(2, rows, parts, dtype=torch.float32)
        attend_pages[(parts, rows)](
            q, k, v, kept, partial, largest, total, tokens, self.kept, float(tokens), scale,
            PAGE=page, HALF=size // 2, TOKENS=32, PART=length, num_warps=4, num_stages=2,
        )  # fmt: skip
        attended = torch.empty_like(x)
        merge_parts[(rows,)](
            q, new_k, new_v, partial, largest, total, attended, parts, float(tokens), scale,
            HALF=size // 2, PARTS=triton.next_power_of_2(parts), num_warps=2,
        )  # fmt: skip
        return self.output.project(attended)


class FeedForward(nn.Module):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.gate = Projection(width, hidden)
        self.up = Projection(width, hidden)
        self.down = Projection(hidden, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        (batch, width), hidden = x.shape, self.gate.weight.shape[0]
        gated = x.new_empty(batch, hidden)
        enter_hidden[(hidden // 16,)](
            x, self.gate.weight, self.up.weight, gated, batch, width, hidden,
            ROWS=ROWS, COLUMNS=16, DEPTH=choose_depth(width), num_warps=4, num_stages=3,
        )  # fmt: skip
        return self.down.project(gated)


class Layer(nn.Module):
    def __init__(self, width: int, heads: int, kept: int, hidden: int) -> None:
        super().__init__()
        self.attention_norm = Norm(width)
        self.attention = PagedAttention(width, heads, kept)
        self.feed_forward_norm = Norm(width)
        self.feed_forward = FeedForward(width, hidden)


def add_parts(h: torch.Tensor, parts: torch.Tensor | None, norm: Norm | None) -> tuple[torch.Tensor, torch.Tensor]:
    """Return h plus all parts, and the norm of that; h itself when there are no parts."""
    batch, width = h.shape
    total = h if parts is None else torch.empty_like(h)
    normed = h if norm is None else torch.empty_like(h)
    add_and_normalise[(batch,)](
        h, h if parts is None else parts, h if norm is None else norm.weight, total, normed, EPSILON,
        WIDTH=width, BLOCK=triton.next_power_of_2(width), PARTS=0 if parts is None else len(parts),
        NORMALISE=norm is not None, num_warps=8,
    )  # fmt: skip
    return total, normed


class ModelNew(nn.Module):
    """Several layers, each with its part of the cache."""

    def __init__(self, layers: int, width: int, heads: int, kept: int, hidden: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(width, heads, kept, hidden) for _ in range(layers))

    def forward(
        self, x: torch.Tensor, k: torch.Tensor, v: torch.Tensor, kmin: torch.Tensor, kmax: torch.Tensor
    ) -> torch.Tensor:
        h, normed = add_parts(x.view(len(x), -1), None, self.layers[0].attention_norm)
        for number, layer in enumerate(self.layers):
            parts = layer.attention(normed, k[number], v[number], kmin[number], kmax[number])
            h, normed = add_parts(h, parts, layer.feed_forward_norm)
            following = self.layers[number + 1].attention_norm if number + 1 < len(self.layers) else None
            h, normed = add_parts(h, layer.feed_forward(normed), following)
        return h.view_as(x)
