"""Steps of a lattice Boltzmann method on the D2Q9 lattice: hidden inputs and the float64 oracle."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from verifier.inputs import draw_gaussian, draw_integers, draw_uniform

X_VELOCITIES = (0, 1, 0, -1, 0, 1, -1, -1, 1)
Y_VELOCITIES = (0, 0, 1, 0, -1, 1, 1, -1, -1)
# Weights by the square of a velocity.
WEIGHTS = (4 / 9, 1 / 9, 1 / 36)
DENSE = 10.0


def _compute_equilibrium(density: torch.Tensor, velocity: torch.Tensor) -> torch.Tensor:
    """Return the equilibrium, 9 x Y x X, for densities Y x X and velocities 2 x Y x X, in their dtype."""
    directions = density.new_tensor([X_VELOCITIES, Y_VELOCITIES]).T
    weights = density.new_tensor(WEIGHTS)[directions.square().sum(dim=1).long()]
    along = torch.tensordot(directions, velocity, dims=1)
    bracket = 1 + 3 * along + 4.5 * along.square() - 1.5 * velocity.square().sum(dim=0)
    return weights[:, None, None] * density * bracket


def _draw_populations(distribution: str, shape: tuple[int, int], generator: torch.Generator) -> torch.Tensor:
    density, velocity = torch.ones(shape, device=generator.device), 0.05 * draw_gaussian((2, *shape), generator)
    match distribution:
        case "random-positive":
            return draw_uniform((9, *shape), 0.05, 0.15, generator)
        case "porous":
            return _compute_equilibrium(density, velocity) + 1e-3 * draw_gaussian((9, *shape), generator)
        case "shear":
            # The two halves slide against each other; a little noise breaks the symmetry.
            velocity *= 0.02
            velocity[0, : shape[0] // 2] += 0.1
            velocity[0, shape[0] // 2 :] -= 0.1
            return _compute_equilibrium(density, velocity)
        case "impulse":
            density.view(-1)[draw_integers(0, density.numel(), 1, generator)] = DENSE
            return _compute_equilibrium(density, 0.2 * velocity)
    raise ValueError(f"unknown distribution {distribution!r}")


def generate(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return seeded inputs. Raises ValueError for an unknown distribution."""
    shape = (dims["Y"], dims["X"])
    f = _draw_populations(distribution, shape, generator)
    solid = draw_uniform(shape, 0.0, 1.0, generator) < (0.3 if distribution == "porous" else 0.05)
    low, high = (0.505, 0.515) if distribution == "shear" else (0.6, 1.0)
    return {"f": f, "solid": solid, "tau": draw_uniform((1,), low, high, generator)}


def compute_oracle(
    inputs: Mapping[str, torch.Tensor], state: Mapping[str, torch.Tensor], dims: Mapping[str, int]
) -> tuple[torch.Tensor, ...]:
    """Return the populations in float64: moments by products, streaming and bounce-back by one table of sources."""
    f, solid, tau = inputs["f"].double(), inputs["solid"], inputs["tau"].double()
    count, height, width = f.shape
    directions = torch.tensor([X_VELOCITIES, Y_VELOCITIES], device=f.device)
    opposite = (-directions.T).unsqueeze(1).eq(directions.T).all(dim=-1).long().argmax(dim=1)
    # In a solid cell the population that arrives with a velocity leaves with the opposite one.
    arriving = torch.where(solid, opposite[:, None, None], torch.arange(count, device=f.device)[:, None, None])
    y = torch.arange(height, device=f.device)[:, None] - directions[1][arriving]
    x = torch.arange(width, device=f.device) - directions[0][arriving]
    source = (arriving * height + y % height) * width + x % width
    for _ in range(dims["STEPS"]):
        density = f.sum(dim=0)
        velocity = torch.tensordot(directions.double(), f, dims=1) / density
        relaxed = f + (_compute_equilibrium(density, velocity) - f) / tau
        f = relaxed.flatten()[source]
    return (f,)
