"""Neighbourhood attention on images: every pixel attends to the 7 x 7 pixels around it, with a bias by offset."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import nn

from verifier.inputs import draw_gaussian

WINDOW = 7


def list_neighbours(size: int, device: torch.device) -> torch.Tensor:
    """Return the seven nearest places of each of `size` places, size x 7; at a border the window is shifted inside."""
    place = torch.arange(size, device=device)
    first = (place - WINDOW // 2).clamp(0, size - WINDOW)
    return first.unsqueeze(1) + torch.arange(WINDOW, device=device)


class Model(nn.Module):
    """o = softmax(q . k / sqrt(d) + bias) v over the window of each pixel."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.randn(heads, 2 * WINDOW - 1, 2 * WINDOW - 1))

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        batch, heads, height, width, features = q.shape
        rows, columns = list_neighbours(height, q.device), list_neighbours(width, q.device)
        # Entry (y, x, i, j) is about the neighbour in row i and column j of the window of pixel (y, x).
        neighbours = rows[:, None, :, None] * width + columns[None, :, None, :]
        neighbours = neighbours.view(height * width, WINDOW * WINDOW)
        down = rows - torch.arange(height, device=q.device).unsqueeze(1) + WINDOW - 1
        right = columns - torch.arange(width, device=q.device).unsqueeze(1) + WINDOW - 1
        bias = self.bias[:, down[:, None, :, None], right[None, :, None, :]].view(heads, height * width, -1)
        keys, values = (tensor.flatten(2, 3)[:, :, neighbours] for tensor in (k, v))
        scores = torch.einsum("bhpd,bhpnd->bhpn", q.flatten(2, 3), keys) / math.sqrt(features) + bias
        return torch.einsum("bhpn,bhpnd->bhpd", scores.softmax(dim=-1), values).view(q.shape)


def get_init_inputs(dims: Mapping[str, int]) -> list[object]:
    """Return the arguments of the constructor: the number of heads."""
    return [dims["H"]]


def generate(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return seeded inputs. Raises ValueError for another distribution than gauss."""
    if distribution != "gauss":
        raise ValueError(f"unknown distribution {distribution!r}; known: gauss")
    q, k, v = draw_gaussian((3, *(dims[name] for name in ("B", "H", "Y", "X", "d"))), generator)
    return {"q": q, "k": k, "v": v}
