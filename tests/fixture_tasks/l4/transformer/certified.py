# mypy: ignore-errors
"""A small transformer in PyTorch's products and Triton's everything else, IEEE fp32 throughout.

Strategy: the products and attention stay with the library. What lies between them is memory traffic, and each
piece becomes one kernel: the embedding with the first norm; the bias of queries, keys and values with their layout
head by head, which spares attention its copies; a residual with the bias of the product before it and the norm after
it; bias and gelu, in place on the hidden layer; the last residual with the final norm, summed over the tokens of a
sequence by a program for each run of tokens.
"""

import torch
import triton
import triton.language as tl
from torch import nn
from torch.nn import functional

HEADS = 4


@triton.jit
def normalise(h, weight_pointer, bias_pointer, feature, epsilon, W: tl.constexpr):
    centred = h - tl.sum(h, axis=0) / W
    deviation = tl.sqrt(tl.sum(centred * centred, axis=0) / W + epsilon)
    return centred / deviation * tl.load(weight_pointer + feature) + tl.load(bias_pointer + feature)


@triton.jit
def embed(
    ids_pointer, tokens_pointer, positions_pointer, weight_pointer, bias_pointer, h_pointer, normed_pointer,
    S, epsilon, W: tl.constexpr,
):  # fmt: skip
    place = tl.program_id(0)
    feature = tl.arange(0, W)
    token = tl.load(ids_pointer + place)
    h = tl.load(tokens_pointer + token * W + feature) + tl.load(positions_pointer + (place % S) * W + feature)
    tl.store(h_pointer + place * W + feature, h)
    tl.store(normed_pointer + place * W + feature, normalise(h, weight_pointer, bias_pointer, feature, epsilon, W))


@triton.jit
def add_and_normalise(
    h_pointer,
    branch_pointer,
    branch_bias_pointer,
    weight_pointer,
    bias_pointer,
    normed_pointer,
    epsilon,
    W: tl.constexpr,
):
    feature = tl.arange(0, W)
    place = tl.program_id(0) * W + feature
    h = tl.load(h_pointer + place) + tl.load(branch_pointer + place) + tl.load(branch_bias_pointer + feature)
    tl.store(h_pointer + place, h)
    tl.store(normed_pointer + place, normalise(h, weight_pointer, bias_pointer, feature, epsilon, W))


@triton.jit
def split_heads(qkv_pointer, bias_pointer, heads_pointer, S, count, HEADS: tl.constexpr, W: tl.constexpr):
    # Feature c of part p (queries, keys or values) belongs to head c // (W / HEADS).
    part = tl.program_id(1)
    token = tl.program_id(0)
    feature = tl.arange(0, W)
    value = tl.load(qkv_pointer + (token * 3 + part) * W + feature) + tl.load(bias_pointer + part * W + feature)
    size: tl.constexpr = W // HEADS
    row = (token // S * HEADS + feature // size) * S + token % S
    tl.store(heads_pointer + part * count + row * size + feature % size, value)


@triton.jit
def activate(hidden_pointer, bias_pointer, count, H: tl.constexpr, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < count
    hidden = tl.load(hidden_pointer + place, mask=inside, other=0.0) + tl.load(bias_pointer + place % H)
    hidden = 0.5 * hidden * (1.0 + tl.erf(hidden * 0.7071067811865476))
    tl.store(hidden_pointer + place, hidden, mask=inside)


@triton.jit
def pool(
    h_pointer, branch_pointer, branch_bias_pointer, weight_pointer, bias_pointer, pooled_pointer,
    S, epsilon, W: tl.constexpr, RUN: tl.constexpr,
):  # fmt: skip
    feature = tl.arange(0, W)
    sequence = tl.program_id(1)
    total = tl.zeros((W,), tl.float32)
    first = tl.program_id(0) * RUN
    for token in range(first, tl.minimum(first + RUN, S)):
        place = (sequence * S + token) * W + feature
        h = tl.load(h_pointer + place) + tl.load(branch_pointer + place) + tl.load(branch_bias_pointer + feature)
        total += normalise(h, weight_pointer, bias_pointer, feature, epsilon, W)
    tl.atomic_add(pooled_pointer + sequence * W + feature, total / S)


class Block(nn.Module):
    """The parameters of one block, and its products."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.merge = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.expand = nn.Linear(width, 4 * width)
        self.contract = nn.Linear(4 * width, width)

    def attend(self, normed: torch.Tensor, batch: int) -> torch.Tensor:
        rows, width = normed.shape
        heads = normed.new_empty(3, batch, HEADS, rows // batch, width // HEADS)
        split_heads[(rows, 3)](
            normed @ self.qkv.weight.T, self.qkv.bias, heads, rows // batch, normed.numel(),
            HEADS=HEADS, W=width, num_warps=2,
        )  # fmt: skip
        attended = functional.scaled_dot_product_attention(*heads)
        return attended.transpose(1, 2).reshape(-1, width) @ self.merge.weight.T

    def feed_forward(self, normed: torch.Tensor) -> torch.Tensor:
        hidden = normed @ self.expand.weight.T
        block = 1024
        activate[(triton.cdiv(hidden.numel(), block),)](
            hidden, self.expand.bias, hidden.numel(), H=hidden.shape[-1], BLOCK=block
        )
        return hidden @ self.contract.weight.T


class ModelNew(nn.Module):
    """logits = head(mean over the tokens of norm(blocks(tokens[ids] + positions)))."""

    def __init__(self, vocabulary: int, tokens: int, width: int, classes: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(torch.zeros(tokens, width))
        self.blocks = nn.ModuleList(Block(width) for _ in range(2))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def embed(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        width, norm = self.positions.shape[1], self.blocks[0].norm1
        h = self.positions.new_empty(ids.numel(), width)
        normed = torch.empty_like(h)
        embed[(ids.numel(),)](
            ids, self.tokens.weight, self.positions, norm.weight, norm.bias, h, normed, ids.shape[1], norm.eps,
            W=width, num_warps=2,
        )  # fmt: skip
        return h, normed

    def pool(self, h: torch.Tensor, branch: torch.Tensor, batch: int) -> torch.Tensor:
        width, tokens, run = h.shape[1], len(h) // batch, 16
        pooled = h.new_zeros(batch, width)
        pool[(triton.cdiv(tokens, run), batch)](
            h, branch, self.blocks[-1].contract.bias, self.norm.weight, self.norm.bias, pooled, tokens, self.norm.eps,
            W=width, RUN=run, num_warps=2,
        )  # fmt: skip
        return pooled

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        batch = len(ids)
        h, normed = self.embed(ids)
        for block, following in zip(self.blocks, [*self.blocks[1:], None], strict=True):
            add_branch(h, block.attend(normed, batch), block.merge.bias, block.norm2, normed)
            branch = block.feed_forward(normed)
            if following is not None:
                add_branch(h, branch, block.contract.bias, following.norm1, normed)
        return self.head(self.pool(h, branch, batch))


def add_branch(
    h: torch.Tensor, branch: torch.Tensor, bias: torch.Tensor, norm: nn.LayerNorm, normed: torch.Tensor
) -> None:
    """Add `branch` and its bias to `h` and write the norm of the sum to `normed`."""
    rows, width = h.shape
    add_and_normalise[(rows,)](h, branch, bias, norm.weight, norm.bias, normed, norm.eps, W=width, num_warps=2)
