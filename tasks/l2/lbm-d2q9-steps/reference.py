"""Steps of a lattice Boltzmann method on the D2Q9 lattice: collision, streaming and bounce-back."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from verifier.inputs import draw_gaussian, draw_uniform

# Velocities along x and y, the weights of the equilibrium, and for each velocity the one in the other direction.
VELOCITIES = ((0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1))
WEIGHTS = (4 / 9, 1 / 9, 1 / 9, 1 / 9, 1 / 9, 1 / 36, 1 / 36, 1 / 36, 1 / 36)
OPPOSITES = (0, 3, 4, 1, 2, 7, 8, 5, 6)
SOLID_SHARE = 0.05


def compute_equilibrium(density: torch.Tensor, x_velocity: torch.Tensor, y_velocity: torch.Tensor) -> torch.Tensor:
    """Return the nine populations of the equilibrium, 9 x Y x X."""
    square = x_velocity * x_velocity + y_velocity * y_velocity
    populations = []
    for (x, y), weight in zip(VELOCITIES, WEIGHTS, strict=True):
        along = x * x_velocity + y * y_velocity
        populations.append(weight * density * (1.0 + 3.0 * along + 4.5 * along * along - 1.5 * square))
    return torch.stack(populations)


class Model(nn.Module):
    """Each step: relax towards the equilibrium, move every population one cell on, turn them round in solid cells."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.steps = steps

    def forward(self, f: torch.Tensor, solid: torch.Tensor, tau: torch.Tensor) -> torch.Tensor:
        for _ in range(self.steps):
            density = f.sum(dim=0)
            x_velocity = (f[1] - f[3] + f[5] - f[6] - f[7] + f[8]) / density
            y_velocity = (f[2] - f[4] + f[5] + f[6] - f[7] - f[8]) / density
            f = f - (f - compute_equilibrium(density, x_velocity, y_velocity)) / tau
            moved = [population.roll((y, x), dims=(0, 1)) for population, (x, y) in zip(f, VELOCITIES, strict=True)]
            f = torch.where(solid, torch.stack([moved[q] for q in OPPOSITES]), torch.stack(moved))
        return f


def get_init_inputs(dims: Mapping[str, int]) -> list[object]:
    """Return the arguments of the constructor: the number of steps."""
    return [dims["STEPS"]]


def generate(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return seeded inputs. Raises ValueError for another distribution than near-equilibrium."""
    if distribution != "near-equilibrium":
        raise ValueError(f"unknown distribution {distribution!r}; known: near-equilibrium")
    shape = (dims["Y"], dims["X"])
    x_velocity, y_velocity = 0.05 * draw_gaussian((2, *shape), generator)
    f = compute_equilibrium(torch.ones_like(x_velocity), x_velocity, y_velocity)
    return {
        "f": f + 1e-3 * draw_gaussian(f.shape, generator),
        "solid": draw_uniform(shape, 0.0, 1.0, generator) < SOLID_SHARE,
        "tau": draw_uniform((1,), 0.6, 1.0, generator),
    }
