"""Greedy farthest point sampling in feature space."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from verifier.inputs import draw_gaussian, draw_uniform

GRID = 4096.0
ONE_MASKED_IN = 16


class Model(nn.Module):
    """Picks points one by one, each the farthest from all picks before it, by the sum of absolute differences.

    Equal distances go to the lowest index. A masked point has the distance -1.
    """

    def __init__(self, samples: int) -> None:
        super().__init__()
        self.samples = samples

    def forward(self, f: torch.Tensor, mask: torch.Tensor, start: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        distance = torch.full_like(f[:, :, 0], torch.inf)
        picks = [start]
        for _ in range(1, self.samples):
            centre = f.gather(1, picks[-1].view(-1, 1, 1).expand(-1, 1, f.shape[2]))
            distance = torch.minimum(distance, (f - centre).abs().sum(dim=-1)).masked_fill(mask, -1.0)
            picks.append(distance.argmax(dim=1))
        return torch.stack(picks, dim=1), distance


def get_init_inputs(dims: Mapping[str, int]) -> list[object]:
    """Return the arguments of the constructor: the number of picks."""
    return [dims["K"]]


def generate(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return seeded inputs. Raises ValueError for another distribution than grid-gauss."""
    if distribution != "grid-gauss":
        raise ValueError(f"unknown distribution {distribution!r}; known: grid-gauss")
    batch, points = dims["B"], dims["N"]
    f = torch.round(draw_gaussian((batch, points, dims["D"]), generator) * GRID) / GRID
    mask = draw_uniform((batch, points), 0.0, 1.0, generator) < 1 / ONE_MASKED_IN
    # A random point that is not masked.
    start = draw_uniform((batch, points), 0.0, 1.0, generator).masked_fill(mask, -1.0).argmax(dim=1)
    return {"f": f, "mask": mask, "start": start}
