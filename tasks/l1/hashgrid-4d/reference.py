"""Multiresolution hash-grid encoding of points in space and time."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from verifier.inputs import draw_integers

COARSEST = 16
GROWTH = 1.45
PRIMES = (1, 2_654_435_761, 805_459_861, 3_674_653_429)
BITS_OF_HASH = 0xFFFF_FFFF
# Coordinates are multiples of this, so that their product with a resolution is exact in fp32.
STEP = 2.0**-14


class Model(nn.Module):
    """Smoothstep interpolation between hashed table entries, at each resolution floor(16 * 1.45^level)."""

    def __init__(self, levels: int, entries: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(levels, entries, 2))

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        return torch.cat([self.encode(points, level) for level in range(len(self.table))], dim=-1)

    def encode(self, points: torch.Tensor, level: int) -> torch.Tensor:
        """Return the (N, 2) features of one level."""
        position = points * int(COARSEST * GROWTH**level)
        cell = position.floor()
        fraction = (position - cell).unsqueeze(1)
        weight = fraction.square() * (3.0 - 2.0 * fraction)
        corners = torch.cartesian_prod(*[torch.arange(2, device=points.device)] * 4)
        shares = torch.where(corners == 1, weight, 1.0 - weight).prod(dim=-1)
        indices = cell.long().unsqueeze(1) + corners
        entries = torch.zeros_like(indices[..., 0])
        for axis, prime in enumerate(PRIMES):
            entries ^= indices[..., axis] * prime & BITS_OF_HASH
        values = self.table[level, entries % self.table.shape[1]]
        return (shares.unsqueeze(-1) * values).sum(dim=1)


def get_init_inputs(dims: Mapping[str, int]) -> list[object]:
    """Return the arguments of the constructor: the numbers of levels and of entries a level."""
    return [dims["LV"], dims["T"]]


def generate(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return seeded inputs. Raises ValueError for another distribution than uniform."""
    if distribution != "uniform":
        raise ValueError(f"unknown distribution {distribution!r}; known: uniform")
    return {"points": draw_integers(0, round(1 / STEP), 4 * dims["N"], generator).view(-1, 4) * STEP}
