"""Neighbourhood attention on images: hidden inputs and the float64 oracle."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

from verifier.inputs import draw_gaussian

REACH = 3
PEAK = 4.0
OFFSET = 50.0


def generate(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return seeded inputs. Raises ValueError for an unknown distribution."""
    batch, heads, height, width, features = (dims[name] for name in ("B", "H", "Y", "X", "d"))
    q, k, v = draw_gaussian((3, batch, heads, height, width, features), generator)
    match distribution:
        case "peaked":
            q, k = PEAK * q, PEAK * k
        case "offset-keys":
            k = k + OFFSET * draw_gaussian((batch, 1, 1, 1, features), generator).sign()
        case "constant-values":
            v = draw_gaussian((batch, heads, 1, 1, features), generator).repeat(1, 1, height, width, 1)
        case "far-border-keys":
            # Four to six pixels from a border: only windows that are shifted at the border see them from there.
            q = q + 1.0
            for axis, size in ((2, height), (3, width)):
                for first in (REACH + 1, max(size - 2 * REACH - 1, 0)):
                    k.narrow(axis, first, min(REACH, size - first)).add_(1.0)
        case _:
            raise ValueError(f"unknown distribution {distribution!r}")
    return {"q": q.contiguous(), "k": k.contiguous(), "v": v.contiguous()}


def _mark_window(size: int, device: torch.device) -> torch.Tensor:
    """Return which of `size` places belong to the window of each: those nearer than any other seven, size x size."""
    place = torch.arange(size, device=device)
    centre = place.clamp(REACH, size - 1 - REACH)
    return (place - centre.unsqueeze(1)).abs() <= REACH


def compute_oracle(
    inputs: Mapping[str, torch.Tensor], state: Mapping[str, torch.Tensor], dims: Mapping[str, int]
) -> tuple[torch.Tensor, ...]:
    """Return the result in float64, one head at a time: full rows of scores within a band of image rows, then masked."""
    q, k, v = (inputs[name].double() for name in ("q", "k", "v"))
    height, width, features = q.shape[2:]
    visible = _mark_window(width, q.device)
    offset = torch.arange(width, device=q.device)
    offset = (offset - offset.unsqueeze(1)).clamp(-2 * REACH, 2 * REACH) + 2 * REACH
    result = torch.empty_like(q)
    for y in range(height):
        first = min(max(y - REACH, 0), height - 2 * REACH - 1)
        rows = slice(first, first + 2 * REACH + 1)
        scores = torch.einsum("bhxd,bhrjd->bhxrj", q[:, :, y], k[:, :, rows]) / math.sqrt(features)
        down = slice(first - y + 2 * REACH, first - y + 4 * REACH + 1)
        scores = scores + state["bias"].double()[:, down][:, :, offset].transpose(1, 2)
        scores = scores.masked_fill(~visible.unsqueeze(1), -torch.inf).flatten(3)
        weights = torch.exp(scores - scores.logsumexp(dim=-1, keepdim=True))
        result[:, :, y] = weights @ v[:, :, rows].flatten(2, 3)
    return (result,)
