"""Greedy farthest point sampling in feature space: hidden inputs and the exact oracle."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from verifier.inputs import draw_gaussian, draw_integers, draw_permutation, draw_uniform

COARSE = 16.0
COPIES = 4
LARGEST_CLUSTERS = 32
CLUSTER_DISTANCE = 8.0
MASKED_SHARE = 0.7
EXTREME = 4096.0


def _draw_duplicates(batch: int, points: int, features: int, generator: torch.Generator) -> torch.Tensor:
    originals = torch.round(draw_gaussian((batch, -(-points // COPIES), features), generator) * COARSE) / COARSE
    return originals.repeat(1, COPIES, 1)[:, draw_permutation(len(originals[0]) * COPIES, generator)[:points]]


def _draw_clusters(batch: int, points: int, features: int, clusters: int, generator: torch.Generator) -> torch.Tensor:
    centres = CLUSTER_DISTANCE * torch.round(draw_gaussian((batch, clusters, features), generator) * 2.0)
    members = centres[:, draw_integers(0, clusters, points, generator)]
    return members + torch.round(draw_gaussian((batch, points, features), generator) * COARSE) / (COARSE * COARSE)


def generate(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return seeded inputs. Raises ValueError for an unknown distribution."""
    batch, points, features = shape = (dims["B"], dims["N"], dims["D"])
    chance = draw_uniform((batch, points), 0.0, 1.0, generator)
    mask = chance < 0.0
    match distribution:
        case "grid-uniform":
            f = draw_integers(-32, 33, batch * points * features, generator).view(shape) / 8.0
        case "duplicates":
            f = _draw_duplicates(batch, points, features, generator)
        case "clusters":
            f = _draw_clusters(batch, points, features, min(LARGEST_CLUSTERS, dims["K"] // 3), generator)
        case "mostly-masked":
            f = torch.round(draw_gaussian(shape, generator) * COARSE) / COARSE
            mask = chance < MASKED_SHARE
            f = torch.where(mask.unsqueeze(-1), EXTREME * f.sign(), f)
        case _:
            raise ValueError(f"unknown distribution {distribution!r}")
    start = draw_uniform((batch, points), 0.0, 1.0, generator).masked_fill(mask, -1.0).argmax(dim=1)
    return {"f": f, "mask": mask, "start": start}


def compute_oracle(
    inputs: Mapping[str, torch.Tensor], state: Mapping[str, torch.Tensor], dims: Mapping[str, int]
) -> tuple[torch.Tensor, ...]:
    """Return the picks and, in float64, the distances. All sums are exact, so that no order of summation matters."""
    f, mask = inputs["f"].double(), inputs["mask"]
    place = torch.arange(f.shape[1], device=f.device)
    cloud = torch.arange(len(f), device=f.device)
    picks = inputs["start"].unsqueeze(1)
    distance = f.new_full(f.shape[:2], torch.inf).masked_fill(mask, -1.0)
    for _ in range(1, dims["K"]):
        reached = torch.cdist(f, f[cloud, picks[:, -1]].unsqueeze(1), p=1.0).squeeze(2)
        distance = torch.where(reached < distance, reached, distance)
        farthest = distance == distance.amax(dim=1, keepdim=True)
        lowest = torch.where(farthest, place, f.shape[1]).amin(dim=1, keepdim=True)
        picks = torch.cat([picks, lowest], dim=1)
    return picks, distance
