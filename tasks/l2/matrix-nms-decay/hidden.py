"""Matrix NMS: hidden inputs and the float64 oracle."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from verifier.inputs import draw_gaussian, draw_integers, draw_uniform

SIGMA = 2.0
THRESHOLD = 0.05
CLASSES = 80
BOXES_A_CLASS = 12
COPIES = 4
LEVELS = 32
IMAGES_AT_ONCE = 8


def _draw_boxes(shape: tuple[int, int], generator: torch.Generator) -> torch.Tensor:
    centre = draw_uniform((*shape, 2), 0.0, 1.0, generator)
    half = 0.1 * torch.exp(0.5 * draw_gaussian((*shape, 2), generator))
    return torch.cat([centre - half, centre + half], dim=-1)


def _draw_classes(shape: tuple[int, int], generator: torch.Generator) -> torch.Tensor:
    classes = min(CLASSES, shape[1] // BOXES_A_CLASS)
    return draw_integers(0, classes, shape[0] * shape[1], generator).view(shape)


def _flatten_boxes(boxes: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Return boxes half of which have no width, or no height, or are all the same point."""
    flat = boxes.clone()
    choice = draw_integers(0, 6, boxes.shape[0] * boxes.shape[1], generator).view(boxes.shape[:2])
    flat[..., 2] = torch.where(choice == 1, flat[..., 0], flat[..., 2])
    flat[..., 3] = torch.where(choice == 2, flat[..., 1], flat[..., 3])
    return torch.where((choice == 3).unsqueeze(-1), 0.5, flat)


def generate(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return seeded inputs. Raises ValueError for an unknown distribution."""
    shape = batch, count = dims["B"], dims["n"]
    boxes, cls = _draw_boxes(shape, generator), _draw_classes(shape, generator)
    scores = draw_uniform(shape, 0.0, 1.0, generator)
    match distribution:
        case "one-class":
            cls = draw_integers(0, CLASSES, batch, generator).unsqueeze(-1).repeat(1, count)
        case "duplicates":
            boxes = boxes[:, : count // COPIES].repeat(1, COPIES, 1)
            cls = cls[:, : count // COPIES].repeat(1, COPIES)
        case "degenerate":
            boxes = _flatten_boxes(boxes, generator)
        case "tied-scores":
            scores = ((scores * LEVELS).floor() + 0.5) / LEVELS
        case _:
            raise ValueError(f"unknown distribution {distribution!r}")
    return {"boxes": boxes, "scores": scores, "cls": cls}


def _compute_overlap(boxes: torch.Tensor) -> torch.Tensor:
    x1, y1, x2, y2 = boxes.unbind(-1)
    width = (torch.minimum(x2[:, :, None], x2[:, None]) - torch.maximum(x1[:, :, None], x1[:, None])).clamp(min=0)
    height = (torch.minimum(y2[:, :, None], y2[:, None]) - torch.maximum(y1[:, :, None], y1[:, None])).clamp(min=0)
    area = (x2 - x1).clamp(min=0) * (y2 - y1).clamp(min=0)
    shared = width * height
    union = area[:, :, None] + area[:, None] - shared
    return torch.where(union > 0, shared / union, 0.0)


def compute_oracle(
    inputs: Mapping[str, torch.Tensor], state: Mapping[str, torch.Tensor], dims: Mapping[str, int]
) -> tuple[torch.Tensor, ...]:
    """Return scores in float64 and indices: all pairs in the order of the input, placed by how many boxes are better."""
    placed, index = torch.zeros_like(inputs["scores"], dtype=torch.float64), torch.zeros_like(inputs["cls"])
    number = torch.arange(dims["n"], device=index.device)
    for first in range(0, dims["B"], IMAGES_AT_ONCE):
        images = slice(first, first + IMAGES_AT_ONCE)
        scores, cls = inputs["scores"][images].double(), inputs["cls"][images]
        # Entry (i, j) says that box i is better than box j.
        better = scores[:, :, None] > scores[:, None]
        better |= (scores[:, :, None] == scores[:, None]) & (number[:, None] < number)
        rank = better.sum(dim=1)
        rivals = better & (cls[:, :, None] == cls[:, None])
        overlap = torch.where(rivals, _compute_overlap(inputs["boxes"][images].double()), 0.0)
        excess = overlap.square() - overlap.amax(dim=1).square()[:, :, None]
        decayed = scores * torch.exp(-SIGMA * torch.where(better, excess, 0.0).amax(dim=1))
        placed[images] = placed[images].scatter(1, rank, (decayed - THRESHOLD).clamp(min=0.0))
        index[images] = index[images].scatter(1, rank, number.expand_as(rank))
    return placed, index
