# task: l3-17
# why: One kernel gathers and concatenates, the library multiplies, small kernels do activations and the weighted sum.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def gather_features(
    item_pointer, category_pointer, items_pointer, categories_pointer, item_pointer_of_candidate,
    category_pointer_of_candidate, feature_pointer, steps, HALF: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    table = tl.program_id(1)
    sample = row // steps
    column = tl.arange(0, HALF)
    if table == 0:
        history = tl.load(item_pointer + tl.load(items_pointer + row) * HALF + column)
        candidate = tl.load(item_pointer + tl.load(item_pointer_of_candidate + sample) * HALF + column)
    else:
        history = tl.load(category_pointer + tl.load(categories_pointer + row) * HALF + column)
        candidate = tl.load(category_pointer + tl.load(category_pointer_of_candidate + sample) * HALF + column)
    place = feature_pointer + row * 8 * HALF + table * HALF + column
    tl.store(place, history)
    tl.store(place + 2 * HALF, candidate)
    tl.store(place + 4 * HALF, history - candidate)
    tl.store(place + 6 * HALF, history * candidate)


@triton.jit
def apply_sigmoid(hidden_pointer, count, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < count
    hidden = tl.load(hidden_pointer + place, mask=inside, other=0.0)
    tl.store(hidden_pointer + place, tl.sigmoid(hidden), mask=inside)


@triton.jit
def add_history(feature_pointer, weight_pointer, length_pointer, head_pointer, steps, D: tl.constexpr):
    sample = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, D)
    user = tl.zeros((D,), tl.float32)
    for step in range(tl.load(length_pointer + sample)):
        row = sample * steps + step
        user += tl.load(weight_pointer + row) * tl.load(feature_pointer + row * 4 * D + column)
    candidate = tl.load(feature_pointer + sample * steps * 4 * D + D + column)
    place = head_pointer + sample * 3 * D + column
    tl.store(place, user)
    tl.store(place + D, candidate)
    tl.store(place + 2 * D, user * candidate)


@triton.jit
def apply_dice(x_pointer, alpha_pointer, mean_pointer, variance_pointer, width, BLOCK: tl.constexpr):
    unit = tl.arange(0, BLOCK)
    inside = unit < width
    place = x_pointer + tl.program_id(0) * width + unit
    x = tl.load(place, mask=inside, other=0.0)
    mean = tl.load(mean_pointer + unit, mask=inside, other=0.0)
    variance = tl.load(variance_pointer + unit, mask=inside, other=1.0)
    p = tl.sigmoid((x - mean) / tl.sqrt(variance + 1e-8))
    alpha = tl.load(alpha_pointer + unit, mask=inside, other=0.0)
    tl.store(place, p * x + (1.0 - p) * alpha * x, mask=inside)


class Dice(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.alpha = nn.Parameter(torch.zeros(width))
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("variance", torch.ones(width))

    def forward(self, x):
        rows, width = x.shape
        apply_dice[(rows,)](x, self.alpha, self.mean, self.variance, width, BLOCK=triton.next_power_of_2(width))
        return x


class Sigmoid(nn.Module):
    def forward(self, hidden):
        apply_sigmoid[(triton.cdiv(hidden.numel(), 1024),)](hidden, hidden.numel(), BLOCK=1024)
        return hidden


class ModelNew(nn.Module):
    def __init__(self, items, categories, width):
        super().__init__()
        self.item = nn.Embedding(items, width // 2)
        self.category = nn.Embedding(categories, width // 2)
        self.attention = nn.Sequential(
            nn.Linear(4 * width, 80), Sigmoid(), nn.Linear(80, 40), Sigmoid(), nn.Linear(40, 1)
        )
        self.head = nn.Sequential(nn.Linear(3 * width, 200), Dice(200), nn.Linear(200, 80), Dice(80), nn.Linear(80, 1))

    def forward(self, history_items, history_categories, candidate_item, candidate_category, length):
        batch, steps = history_items.shape
        half = self.item.weight.shape[1]
        features = self.item.weight.new_empty(batch * steps, 8 * half)
        gather_features[(batch * steps, 2)](
            self.item.weight, self.category.weight, history_items, history_categories, candidate_item,
            candidate_category, features, steps, HALF=half,
        )  # fmt: skip
        weights = self.attention(features)
        joined = features.new_empty(batch, 6 * half)
        add_history[(batch,)](features, weights, length, joined, steps, D=2 * half)
        return torch.sigmoid(self.head(joined)).squeeze(-1)
