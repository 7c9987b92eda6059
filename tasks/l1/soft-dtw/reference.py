"""Soft-DTW alignment value of a batch of cost matrices."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn
from torch.nn import functional

from verifier.inputs import draw_gaussian

SMOOTHING = 0.1


class Model(nn.Module):
    """R[i, j] = cost[i, j] + softmin(R[i-1, j-1], R[i-1, j], R[i, j-1]); the value is R[n-1, m-1].

    softmin(a, b, c) = -g log(exp(-a/g) + exp(-b/g) + exp(-c/g)) with g = 0.1. R[-1, -1] = 0; all else outside is infinite.
    """

    def forward(self, cost: torch.Tensor) -> torch.Tensor:
        batch, rows, columns = cost.shape
        steps = rows + columns - 1
        # Row i moves right by i, so that entries of one anti-diagonal share a column.
        padded = functional.pad(cost, (0, rows), value=torch.inf).flatten(1)
        skewed = padded[:, : rows * steps].view(batch, rows, steps)
        # Anti-diagonals with the border in front: entry i + 1 belongs to row i.
        older = cost.new_full((batch, rows + 1), torch.inf)
        older[:, 0] = 0.0
        newer = torch.full_like(older, torch.inf)
        for step in range(steps):
            before = torch.stack([older[:, :-1], newer[:, :-1], newer[:, 1:]])
            softmin = -SMOOTHING * torch.logsumexp(before / -SMOOTHING, dim=0)
            older, newer = newer, functional.pad(skewed[:, :, step] + softmin, (1, 0), value=torch.inf)
        return newer[:, -1]


def get_init_inputs(dims: Mapping[str, int]) -> list[object]:
    """Return the arguments of the constructor: none."""
    return []


def generate(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return seeded inputs. Raises ValueError for another distribution than gauss-cost."""
    if distribution != "gauss-cost":
        raise ValueError(f"unknown distribution {distribution!r}; known: gauss-cost")
    left = draw_gaussian((dims["B"], dims["n"], 1), generator)
    right = draw_gaussian((dims["B"], 1, dims["m"]), generator)
    return {"cost": (left - right).square()}
