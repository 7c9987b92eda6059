"""All-pairs Hamming distance of bit-packed codes."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from verifier.inputs import draw_integers


def count_bits(words: torch.Tensor) -> torch.Tensor:
    """Return how many of the 32 bits of each int32 word are set, in fields of 2, 4 and 8 bits and then all at once."""
    words = words - ((words >> 1) & 0x55555555)
    words = (words & 0x33333333) + ((words >> 2) & 0x33333333)
    words = (words + (words >> 4)) & 0x0F0F0F0F
    return (words * 0x01010101) >> 24


class Model(nn.Module):
    """distance[i, j] = the number of bits in which codes[i] and queries[j] differ."""

    def forward(self, codes: torch.Tensor, queries: torch.Tensor) -> torch.Tensor:
        different = codes.unsqueeze(1) ^ queries.unsqueeze(0)
        return count_bits(different).sum(dim=-1).float()


def get_init_inputs(dims: Mapping[str, int]) -> list[object]:
    """Return the arguments of the constructor: none."""
    return []


def draw_words(rows: int, words: int, generator: torch.Generator) -> torch.Tensor:
    """Return uniform words, int32 (rows, words)."""
    return draw_integers(-(2**31), 2**31, rows * words, generator).int().view(rows, words)


def generate(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return seeded inputs. Raises ValueError for another distribution than random-bits."""
    if distribution != "random-bits":
        raise ValueError(f"unknown distribution {distribution!r}; known: random-bits")
    codes = draw_words(dims["N"], dims["W"], generator)
    return {"codes": codes, "queries": draw_words(dims["M"], dims["W"], generator)}
