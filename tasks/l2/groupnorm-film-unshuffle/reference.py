"""Group norm, modulation, SiLU and 2 x 2 pixel-unshuffle."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn
from torch.nn import functional

from verifier.inputs import draw_gaussian

GROUPS = 32


class Model(nn.Module):
    """y = pixel_unshuffle(silu(group_norm(x) * (1 + scale) + shift), 2)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(GROUPS, channels, eps=1e-5)
        nn.init.normal_(self.norm.weight, 1.0, 0.3)
        nn.init.normal_(self.norm.bias, 0.0, 0.3)

    def forward(self, x: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
        modulated = self.norm(x) * (1.0 + scale[:, :, None, None]) + shift[:, :, None, None]
        return functional.pixel_unshuffle(functional.silu(modulated), 2)


def get_init_inputs(dims: Mapping[str, int]) -> list[object]:
    """Return the arguments of the constructor: the number of channels."""
    return [dims["C"]]


def generate(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return seeded inputs. Raises ValueError for another distribution than gauss."""
    if distribution != "gauss":
        raise ValueError(f"unknown distribution {distribution!r}; known: gauss")
    batch, channels = dims["B"], dims["C"]
    return {
        "x": draw_gaussian((batch, channels, dims["H"], dims["W"]), generator),
        "scale": 0.5 * draw_gaussian((batch, channels), generator),
        "shift": 0.5 * draw_gaussian((batch, channels), generator),
    }
