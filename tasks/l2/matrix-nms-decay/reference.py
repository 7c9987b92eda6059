"""Matrix NMS: scores decay by the overlap with better boxes of their class, less where these are suppressed themselves."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from verifier.inputs import draw_gaussian, draw_integers, draw_uniform

SIGMA = 2.0
THRESHOLD = 0.05
CLASSES = 80
BOXES_A_CLASS = 12


def compute_overlap(boxes: torch.Tensor) -> torch.Tensor:
    """Return the intersection over the union of every two of n boxes (x1, y1, x2, y2): B x n x n, 0 for no union."""
    first, second = boxes.unsqueeze(2), boxes.unsqueeze(1)
    low = torch.maximum(first[..., :2], second[..., :2])
    high = torch.minimum(first[..., 2:], second[..., 2:])
    intersection = (high - low).clamp(min=0.0).prod(dim=-1)
    area = (boxes[..., 2:] - boxes[..., :2]).clamp(min=0.0).prod(dim=-1)
    union = area.unsqueeze(2) + area.unsqueeze(1) - intersection
    return torch.where(union > 0.0, intersection / union, 0.0)


class Model(nn.Module):
    """Boxes in the order of their scores; each score decayed by exp(-sigma (overlap^2 - compensation^2)) at most."""

    def forward(
        self, boxes: torch.Tensor, scores: torch.Tensor, cls: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        ordered, index = scores.sort(dim=-1, descending=True, stable=True)
        boxes = boxes.gather(1, index.unsqueeze(-1).expand_as(boxes))
        cls = cls.gather(1, index)
        better = torch.ones_like(scores[0], dtype=torch.bool).expand(scores.shape[1], -1).triu(1)
        same = cls.unsqueeze(2) == cls.unsqueeze(1)
        overlap = torch.where(better & same, compute_overlap(boxes), 0.0)
        compensation = overlap.amax(dim=1).unsqueeze(2)
        decay = torch.exp(-SIGMA * (overlap.square() - compensation.square()))
        decay = torch.where(better, decay, 1.0).amin(dim=1)
        return (ordered * decay - THRESHOLD).clamp(min=0.0), index


def get_init_inputs(dims: Mapping[str, int]) -> list[object]:
    """Return the arguments of the constructor: none."""
    return []


def generate(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return seeded inputs. Raises ValueError for another distribution than lognormal-sizes."""
    if distribution != "lognormal-sizes":
        raise ValueError(f"unknown distribution {distribution!r}; known: lognormal-sizes")
    batch, count = dims["B"], dims["n"]
    centre = draw_uniform((batch, count, 2), 0.0, 1.0, generator)
    half = 0.1 * torch.exp(0.5 * draw_gaussian((batch, count, 2), generator))
    classes = min(CLASSES, count // BOXES_A_CLASS)
    return {
        "boxes": torch.cat([centre - half, centre + half], dim=-1),
        "scores": draw_uniform((batch, count), 0.0, 1.0, generator),
        "cls": draw_integers(0, classes, batch * count, generator).view(batch, count),
    }
