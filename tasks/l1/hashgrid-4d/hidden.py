"""Multiresolution hash-grid encoding: hidden inputs and the float64 oracle."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from verifier.inputs import draw_gaussian, draw_integers, draw_uniform

COARSEST = 16
GROWTH = 1.45
PRIMES = (1, 2_654_435_761, 805_459_861, 3_674_653_429)
STEPS = 1 << 14
POINTS_OF_A_RAY = 64
CENTRES = 64


def _trace_rays(points: int, generator: torch.Generator) -> torch.Tensor:
    """Return points, in steps, along rays through the cube at one time."""
    rays = -(-points // POINTS_OF_A_RAY)
    start, end = draw_uniform((2, rays, 1, 3), 0.0, STEPS, generator)
    way = torch.linspace(0.0, 1.0, POINTS_OF_A_RAY, device=generator.device).view(1, -1, 1)
    place = (start + way * (end - start)).view(-1, 3)[:points]
    time = draw_integers(0, STEPS, 1, generator).float().expand(points, 1)
    return torch.cat([place, time], dim=-1)


def generate(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return seeded inputs. Raises ValueError for an unknown distribution."""
    points = dims["N"]
    match distribution:
        case "camera-rays":
            steps = _trace_rays(points, generator)
        case "sixteenths":
            steps = draw_integers(0, 16, 4 * points, generator).view(points, 4) * (STEPS / 16)
        case "far-corner":
            steps = draw_integers(STEPS - 8, STEPS, 4 * points, generator).view(points, 4)
        case "tight-clusters":
            centres = draw_uniform((CENTRES, 4), 0.0, STEPS, generator)
            chosen = centres[draw_integers(0, CENTRES, points, generator)]
            steps = chosen + 8.0 * draw_gaussian((points, 4), generator).clamp(-4.0, 4.0)
        case _:
            raise ValueError(f"unknown distribution {distribution!r}")
    return {"points": steps.float().floor().clamp(0, STEPS - 1) / STEPS}


def compute_oracle(
    inputs: Mapping[str, torch.Tensor], state: Mapping[str, torch.Tensor], dims: Mapping[str, int]
) -> tuple[torch.Tensor, ...]:
    """Return the encoding in float64: all corners of a level at once, then folded one axis after another."""
    points, table = inputs["points"].double(), state["table"].double()
    features = []
    for level in range(dims["LV"]):
        position = points * int(COARSEST * GROWTH**level)
        cell = position.floor().long()
        entry = cell.new_zeros(len(points), 1)
        for axis, prime in enumerate(PRIMES):
            products = (cell[:, axis, None] + torch.arange(2, device=cell.device)) * prime % 2**32
            entry = (entry.unsqueeze(-1) ^ products.unsqueeze(1)).flatten(1)
        values = table[level, entry % dims["T"]]
        fraction = position - cell
        weight = 3.0 * fraction**2 - 2.0 * fraction**3
        for axis in (3, 2, 1, 0):
            low, high = values.unflatten(1, (-1, 2)).unbind(dim=2)
            values = torch.lerp(low, high, weight[:, axis, None, None])
        features.append(values.squeeze(1))
    return (torch.cat(features, dim=-1),)
