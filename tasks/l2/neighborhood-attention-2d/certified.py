"""Neighbourhood attention on images in Triton, IEEE fp32 on the FMA units only.

Strategy: windows slide from pixel to pixel, so a matrix product over the union of some windows would be three quarters
waste. A warp takes four neighbouring pixels of two rows of the image instead. Row by row of the window it loads seven
keys and values for each of the four columns, which both rows use, and folds them into a running softmax, rescaled once
a row. Where only one of the two windows holds a row, the other one's scores are minus infinity. The eighth place of a
row of seven is masked.
"""

import math

import torch
import triton
import triton.language as tl
from torch import nn

WINDOW = 7
COLUMNS_AT_ONCE = 4
LOG2_E = math.log2(math.e)
# Below every score, but finite: the difference of two of them is zero and not NaN.
NOTHING = -1e30


@triton.jit
def load_neighbours(pointer, pixel, inside, COLUMNS: tl.constexpr, D: tl.constexpr):
    # As rows of features, neighbours of one pixel lie in the registers of the same lanes.
    place = tl.reshape(pixel, (8 * COLUMNS, 1)) * D + tl.arange(0, D)[None, :]
    rows = tl.load(pointer + place, mask=tl.reshape(inside, (8 * COLUMNS, 1)), other=0.0)
    return tl.reshape(rows, (8, COLUMNS, D))


@triton.jit
def fold(q, keys, values, bias, inside, largest, total, mean):
    scores = tl.sum(q * keys, axis=2, keep_dims=True) + bias
    scores = tl.where(inside, scores, -float("inf"))
    larger = tl.maximum(largest, tl.max(scores, axis=0, keep_dims=True))
    shrink = tl.exp2(largest - larger)
    weights = tl.exp2(scores - larger)
    total = total * shrink + tl.sum(weights, axis=0, keep_dims=True)
    return larger, total, mean * shrink + tl.sum(weights * values, axis=0, keep_dims=True)


@triton.jit
def attend(
    q_pointer, k_pointer, v_pointer, bias_pointer, o_pointer, heads, height, width, scale, log2_e, nothing,
    D: tl.constexpr, COLUMNS: tl.constexpr, WINDOW: tl.constexpr,
):  # fmt: skip
    image = tl.program_id(2).to(tl.int64) * height * width * D
    bias_pointer += (tl.program_id(2) % heads) * (2 * WINDOW - 1) * (2 * WINDOW - 1)
    y = tl.program_id(1) * 2
    # In an image with an odd number of rows the last one is done twice.
    below = tl.minimum(y + 1, height - 1)
    column = (tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS))[None, :, None]
    feature = tl.arange(0, D)[None, None, :]
    present = column < width
    own = (y * width + column) * D + feature
    own_below = (below * width + column) * D + feature
    q = tl.load(q_pointer + image + own, mask=present, other=0.0) * scale
    q_below = tl.load(q_pointer + image + own_below, mask=present, other=0.0) * scale

    first = tl.minimum(tl.maximum(y - WINDOW // 2, 0), height - WINDOW)
    first_below = tl.minimum(tl.maximum(below - WINDOW // 2, 0), height - WINDOW)
    left = tl.minimum(tl.maximum(column - WINDOW // 2, 0), width - WINDOW)
    neighbour = tl.arange(0, 8)[:, None, None]
    inside = (neighbour < WINDOW) & present
    right = left + neighbour - column + WINDOW - 1

    largest = tl.full((1, COLUMNS, 1), nothing, tl.float32)
    largest_below = tl.full((1, COLUMNS, 1), nothing, tl.float32)
    total = tl.zeros((1, COLUMNS, 1), tl.float32)
    total_below = tl.zeros((1, COLUMNS, 1), tl.float32)
    mean = tl.zeros((1, COLUMNS, D), tl.float32)
    mean_below = tl.zeros((1, COLUMNS, D), tl.float32)
    for row in range(first, first_below + WINDOW):
        # The bias comes before keys and values: what follows takes on the layout of the last tile loaded.
        seen = inside & (row < first + WINDOW)
        seen_below = inside & (row >= first_below)
        place = bias_pointer + (row - y + WINDOW - 1) * (2 * WINDOW - 1) + right
        bias = tl.load(place, mask=seen, other=0.0) * log2_e
        place = bias_pointer + (row - below + WINDOW - 1) * (2 * WINDOW - 1) + right
        bias_below = tl.load(place, mask=seen_below, other=0.0) * log2_e
        pixel = row * width + left + neighbour
        keys = load_neighbours(k_pointer + image, pixel, inside, COLUMNS, D)
        values = load_neighbours(v_pointer + image, pixel, inside, COLUMNS, D)
        largest, total, mean = fold(q, keys, values, bias, seen, largest, total, mean)
        largest_below, total_below, mean_below = fold(
            q_below, keys, values, bias_below, seen_below, largest_below, total_below, mean_below
        )
    tl.store(o_pointer + image + own, mean / total, mask=present)
    tl.store(o_pointer + image + own_below, mean_below / total_below, mask=present)


class ModelNew(nn.Module):
    """o = softmax(q . k / sqrt(d) + bias) v over the window of each pixel."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(heads, 2 * WINDOW - 1, 2 * WINDOW - 1))

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        batch, heads, height, width, features = q.shape
        o = torch.empty_like(q)
        attend[(triton.cdiv(width, COLUMNS_AT_ONCE), triton.cdiv(height, 2), batch * heads)](
            q, k, v, self.bias, o, heads, height, width, LOG2_E / math.sqrt(features), LOG2_E, NOTHING,
            D=features, COLUMNS=COLUMNS_AT_ONCE, WINDOW=WINDOW, num_warps=1,
        )  # fmt: skip
        return o
