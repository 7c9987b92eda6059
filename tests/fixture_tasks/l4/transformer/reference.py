"""A small transformer that classifies sequences of tokens."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn
from torch.nn import functional

from verifier.inputs import draw_integers

BLOCKS = 2
HEADS = 4


class Block(nn.Module):
    """Attention and a feed-forward part, each after a norm and added to what it read."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.merge = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.expand = nn.Linear(width, 4 * width)
        self.contract = nn.Linear(4 * width, width)

    def attend(self, h: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = h.shape
        q, k, v = self.qkv(h).view(batch, tokens, 3, HEADS, width // HEADS).permute(2, 0, 3, 1, 4)
        weights = torch.softmax(q @ k.mT * (width // HEADS) ** -0.5, dim=-1)
        return self.merge((weights @ v).transpose(1, 2).reshape(batch, tokens, width))

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        h = h + self.attend(self.norm1(h))
        return h + self.contract(functional.gelu(self.expand(self.norm2(h))))


class Model(nn.Module):
    """logits = head(mean over the tokens of norm(blocks(tokens[ids] + positions)))."""

    def __init__(self, vocabulary: int, tokens: int, width: int, classes: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(0.5 * torch.randn(tokens, width))
        self.blocks = nn.ModuleList(Block(width) for _ in range(BLOCKS))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)
        # As after training: a fresh norm has neither scale nor shift.
        for module in self.modules():
            if isinstance(module, nn.LayerNorm):
                nn.init.normal_(module.weight, 1.0, 0.2)
                nn.init.normal_(module.bias, 0.0, 0.2)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        h = self.tokens(ids) + self.positions
        for block in self.blocks:
            h = block(h)
        return self.head(self.norm(h).mean(dim=1))


def get_init_inputs(dims: Mapping[str, int]) -> list[object]:
    """Return the arguments of the constructor: the sizes of vocabulary, sequence and width, and the number of classes."""
    return [dims["V"], dims["S"], dims["W"], dims["C"]]


def generate(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return seeded inputs. Raises ValueError for another distribution than uniform."""
    if distribution != "uniform":
        raise ValueError(f"unknown distribution {distribution!r}; known: uniform")
    batch, tokens = dims["B"], dims["S"]
    return {"ids": draw_integers(0, dims["V"], batch * tokens, generator).view(batch, tokens)}
