"""Deep Interest Network in Triton, IEEE fp32 on the FMA units only; the small products by the library.

Strategy: for one candidate q, the first layer over [k, q, k - q, k * q] is a matrix times k plus a vector. The matrix
(A1 + A3) + A4 diag(q) is a quarter of the layer and costs one multiplication a weight; the vector (A2 - A3) q + b comes
from one product for all samples. A program takes one sample and walks over the steps that its length admits, a tile of
rows at a time: it gathers them straight from the tables, makes the matrix while it multiplies, keeps both hidden layers
in registers and adds the weighted rows up. Neither the rows nor the hidden layers exist in memory. The head is three
small products with a kernel for each Dice.
"""

import torch
import triton
import triton.language as tl
from torch import nn

ATTENTION_WIDTHS = (80, 40)
HEAD_WIDTHS = (200, 80)
EPSILON = 1e-8
# The first hidden layer is 64 + 16 wide; the second one is padded with units whose weights are all zero.
SECOND = 64
# A program of few warps multiplies faster, one of many hides more latency; which one wins depends on the GPU.
TILES = [
    triton.Config({"STEPS": 32}, num_warps=4, num_stages=1),
    triton.Config({"STEPS": 32}, num_warps=8, num_stages=1),
    triton.Config({"STEPS": 64}, num_warps=8, num_stages=1),
]


@triton.jit
def gather_candidates(
    item_pointer, category_pointer, item_index_pointer, category_index_pointer, feature_pointer, batch,
    HALF: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = row < batch
    column = tl.arange(0, HALF)
    item = tl.load(item_index_pointer + row, mask=inside, other=0)
    category = tl.load(category_index_pointer + row, mask=inside, other=0)
    # Features of a sample: user, candidate, and the product of both.
    place = feature_pointer + row[:, None] * (6 * HALF) + 2 * HALF + column[None, :]
    value = tl.load(item_pointer + item[:, None] * HALF + column[None, :], mask=inside[:, None], other=0.0)
    tl.store(place, value, mask=inside[:, None])
    value = tl.load(category_pointer + category[:, None] * HALF + column[None, :], mask=inside[:, None], other=0.0)
    tl.store(place + HALF, value, mask=inside[:, None])


@triton.jit
def add_table(
    table_pointer, index, inside, candidate_pointer, own_pointer, product_pointer, wide, narrow,
    HALF: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    left = tl.arange(0, 64)
    right = 64 + tl.arange(0, 16)
    for start in range(0, HALF, DEPTH):
        feature = start + tl.arange(0, DEPTH)
        history = tl.load(table_pointer + index[:, None] * HALF + feature[None, :], mask=inside[:, None], other=0.0)
        candidate = tl.load(candidate_pointer + feature)[:, None]
        place = feature[:, None] * 80 + left[None, :]
        weight = tl.load(own_pointer + place) + candidate * tl.load(product_pointer + place)
        wide = tl.dot(history, weight, wide, input_precision="ieee")
        place = feature[:, None] * 80 + right[None, :]
        weight = tl.load(own_pointer + place) + candidate * tl.load(product_pointer + place)
        narrow = tl.dot(history, weight, narrow, input_precision="ieee")
    return wide, narrow


@triton.autotune(TILES, key=["steps"])
@triton.jit
def attend(
    item_pointer, category_pointer, item_index_pointer, category_index_pointer, length_pointer, feature_pointer,
    own_pointer, product_pointer, offset_pointer, second_pointer, second_bias_pointer, last_pointer, last_bias_pointer,
    steps, HALF: tl.constexpr, DEPTH: tl.constexpr, SECOND: tl.constexpr, STEPS: tl.constexpr,
):  # fmt: skip
    sample = tl.program_id(0)
    length = tl.load(length_pointer + sample).to(tl.int32)
    feature_row = feature_pointer + sample * (6 * HALF)
    candidate_pointer = feature_row + 2 * HALF
    column = tl.arange(0, HALF)
    left = tl.arange(0, 64)
    right = 64 + tl.arange(0, 16)
    unit = tl.arange(0, SECOND)
    user_item = tl.zeros((HALF,), tl.float32)
    user_category = tl.zeros((HALF,), tl.float32)
    for start in range(0, length, STEPS):
        step = start + tl.arange(0, STEPS)
        inside = step < length
        item = tl.load(item_index_pointer + sample * steps + step, mask=inside, other=0)
        category = tl.load(category_index_pointer + sample * steps + step, mask=inside, other=0)
        wide = tl.zeros((STEPS, 64), tl.float32) + tl.load(offset_pointer + sample * 80 + left)[None, :]
        narrow = tl.zeros((STEPS, 16), tl.float32) + tl.load(offset_pointer + sample * 80 + right)[None, :]
        wide, narrow = add_table(
            item_pointer, item, inside, candidate_pointer, own_pointer, product_pointer, wide, narrow, HALF, DEPTH
        )
        wide, narrow = add_table(
            category_pointer, category, inside, candidate_pointer + HALF, own_pointer + HALF * 80,
            product_pointer + HALF * 80, wide, narrow, HALF, DEPTH,
        )  # fmt: skip
        hidden = tl.zeros((STEPS, SECOND), tl.float32) + tl.load(second_bias_pointer + unit)[None, :]
        weight = tl.load(second_pointer + left[:, None] * SECOND + unit[None, :])
        hidden = tl.dot(tl.sigmoid(wide), weight, hidden, input_precision="ieee")
        weight = tl.load(second_pointer + right[:, None] * SECOND + unit[None, :])
        hidden = tl.dot(tl.sigmoid(narrow), weight, hidden, input_precision="ieee")
        weight = tl.sum(tl.sigmoid(hidden) * tl.load(last_pointer + unit)[None, :], axis=1)
        weight = tl.where(inside, weight + tl.load(last_bias_pointer), 0.0)
        mask = inside[:, None]
        row = tl.load(item_pointer + item[:, None] * HALF + column[None, :], mask=mask, other=0.0)
        user_item += tl.sum(weight[:, None] * row, axis=0)
        row = tl.load(category_pointer + category[:, None] * HALF + column[None, :], mask=mask, other=0.0)
        user_category += tl.sum(weight[:, None] * row, axis=0)
    tl.store(feature_row + column, user_item)
    tl.store(feature_row + HALF + column, user_category)
    tl.store(feature_row + 4 * HALF + column, user_item * tl.load(candidate_pointer + column))
    tl.store(feature_row + 5 * HALF + column, user_category * tl.load(candidate_pointer + HALF + column))


@triton.jit
def blend(x, alpha_pointer, mean_pointer, variance_pointer, unit, inside, epsilon):
    alpha = tl.load(alpha_pointer + unit, mask=inside, other=0.0)
    mean = tl.load(mean_pointer + unit, mask=inside, other=0.0)
    variance = tl.load(variance_pointer + unit, mask=inside, other=1.0)
    p = tl.sigmoid((x - mean) / tl.sqrt(variance + epsilon))
    return x * (alpha + (1.0 - alpha) * p)


@triton.jit
def activate(hidden_pointer, alpha_pointer, mean_pointer, variance_pointer, width, epsilon, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    unit = tl.arange(0, BLOCK)
    inside = unit < width
    hidden = tl.load(hidden_pointer + row * width + unit, mask=inside, other=0.0)
    hidden = blend(hidden, alpha_pointer, mean_pointer, variance_pointer, unit, inside, epsilon)
    tl.store(hidden_pointer + row * width + unit, hidden, mask=inside)


@triton.jit
def finish(
    hidden_pointer, alpha_pointer, mean_pointer, variance_pointer, weight_pointer, bias_pointer, p_pointer,
    batch, width, epsilon, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    unit = tl.arange(0, BLOCK)
    inside = unit < width
    mask = (row < batch)[:, None] & inside[None, :]
    hidden = tl.load(hidden_pointer + row[:, None] * width + unit[None, :], mask=mask, other=0.0)
    hidden = blend(hidden, alpha_pointer, mean_pointer, variance_pointer, unit[None, :], inside[None, :], epsilon)
    weight = tl.load(weight_pointer + unit, mask=inside, other=0.0)
    logit = tl.sum(hidden * weight[None, :], axis=1) + tl.load(bias_pointer)
    tl.store(p_pointer + row, tl.sigmoid(logit), mask=row < batch)


class Dice(nn.Module):
    """The parameters and statistics of an activation."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.zeros(width))
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("variance", torch.ones(width))


class ModelNew(nn.Module):
    """p = sigmoid(head(user, candidate, user * candidate)), where user is a weighted sum over the history."""

    def __init__(self, items: int, categories: int, width: int) -> None:
        super().__init__()
        self.item = nn.Embedding(items, width // 2)
        self.category = nn.Embedding(categories, width // 2)
        first, second = ATTENTION_WIDTHS
        self.attention = nn.Sequential(
            nn.Linear(4 * width, first), nn.Sigmoid(), nn.Linear(first, second), nn.Sigmoid(), nn.Linear(second, 1)
        )
        first, second = HEAD_WIDTHS
        self.head = nn.Sequential(
            nn.Linear(3 * width, first), Dice(first), nn.Linear(first, second), Dice(second), nn.Linear(second, 1)
        )
        self.folded = False

    def fold(self) -> None:
        """Lay the weights of the attention unit out for the kernels, once for each model."""
        first, second, last = self.attention[0], self.attention[2], self.attention[4]
        own, query, difference, product = first.weight.chunk(4, dim=1)
        self.own = (own + difference).t().contiguous()
        self.product = product.t().contiguous()
        self.query = (query - difference).t().contiguous()
        units, inputs = second.weight.shape
        self.second = first.weight.new_zeros(inputs, SECOND)
        self.second[:, :units] = second.weight.t()
        self.second_bias, self.last = first.weight.new_zeros(2, SECOND)
        self.second_bias[:units] = second.bias
        self.last[:units] = last.weight[0]
        self.folded = True

    def forward(
        self,
        history_items: torch.Tensor,
        history_categories: torch.Tensor,
        candidate_item: torch.Tensor,
        candidate_category: torch.Tensor,
        length: torch.Tensor,
    ) -> torch.Tensor:
        if not self.folded:
            self.fold()
        batch, steps = history_items.shape
        half = self.item.weight.shape[1]
        item, category = self.item.weight, self.category.weight
        features = item.new_empty(batch, 6 * half)
        rows = 16
        gather_candidates[(triton.cdiv(batch, rows),)](
            item, category, candidate_item, candidate_category, features, batch, HALF=half, ROWS=rows
        )
        offset = torch.addmm(self.attention[0].bias, features[:, 2 * half : 4 * half], self.query)
        attend[(batch,)](
            item, category, history_items, history_categories, length, features, self.own, self.product, offset,
            self.second, self.second_bias, self.last, self.attention[4].bias, steps,
            HALF=half, DEPTH=16, SECOND=SECOND,
        )  # fmt: skip
        return self.decide(features)

    def decide(self, features: torch.Tensor) -> torch.Tensor:
        first, first_dice, second, second_dice, last = self.head
        batch = len(features)
        hidden = torch.addmm(first.bias, features, first.weight.t())
        activate[(batch,)](
            hidden, first_dice.alpha, first_dice.mean, first_dice.variance, hidden.shape[1], EPSILON,
            BLOCK=triton.next_power_of_2(hidden.shape[1]), num_warps=2,
        )  # fmt: skip
        hidden = torch.addmm(second.bias, hidden, second.weight.t())
        p = hidden.new_empty(batch)
        rows = 16
        finish[(triton.cdiv(batch, rows),)](
            hidden, second_dice.alpha, second_dice.mean, second_dice.variance, last.weight, last.bias, p,
            batch, hidden.shape[1], EPSILON, ROWS=rows, BLOCK=triton.next_power_of_2(hidden.shape[1]),
        )  # fmt: skip
        return p
