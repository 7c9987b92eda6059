"""DGCNN: hidden inputs and the float64 oracle."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from verifier.inputs import draw_gaussian, draw_integers, draw_permutation, draw_uniform

SLOPE = 0.2
EPSILON = 1e-5
SMALLEST_RADIUS = 1e-12
ROWS_AT_ONCE = 128

State = Mapping[str, torch.Tensor]


def generate(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return seeded inputs. Raises ValueError for an unknown distribution."""
    batch, points = dims["B"], dims["N"]
    shape = (batch, 3, points)
    match distribution:
        case "normal-cloud":
            return {"x": draw_gaussian(shape, generator)}
        case "two-clusters":
            side = draw_integers(0, 2, batch * points, generator).view(batch, 1, points) * 2.0 - 1.0
            direction = torch.nn.functional.normalize(draw_gaussian((batch, 3, 1), generator), dim=1)
            return {"x": 0.5 * draw_gaussian(shape, generator) + 1.5 * side * direction}
        case "anisotropic":
            scales = torch.tensor([1.0, 0.3, 0.03], device=generator.device)
            order = torch.stack([draw_permutation(3, generator) for _ in range(3)])
            chosen = scales[order][draw_integers(0, 3, batch, generator)]
            return {"x": draw_gaussian(shape, generator) * chosen.unsqueeze(-1)}
        case "jittered-grid":
            side = round(points ** (1 / 3) + 0.5)
            place = torch.stack([draw_permutation(side**3, generator)[:points] for _ in range(batch)])
            corner = torch.stack([place // side**2, place // side % side, place % side], dim=1)
            spread = corner * (2.0 / side) - 1.0
            return {"x": spread + draw_uniform(shape, -0.1, 0.1, generator) / side}
    raise ValueError(f"unknown distribution {distribution!r}")


def _normalise(h: torch.Tensor, state: State, name: str) -> torch.Tensor:
    scale = state[f"{name}.weight"] / torch.sqrt(state[f"{name}.variance"] + EPSILON)
    return h * scale + (state[f"{name}.bias"] - state[f"{name}.mean"] * scale)


def _convolve_edges(x: torch.Tensor, state: State, name: str, neighbours: int) -> torch.Tensor:
    """Return the edge convolution of one cloud, N x C, from all pairs of points: far ones have weight 0."""
    weight = state[f"{name}.linear.weight"]
    of_difference, of_centre = weight.chunk(2, dim=1)
    near, own = x @ of_difference.T, x @ (of_centre - of_difference).T
    distance = torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist").square()
    radius = distance.kthvalue(neighbours, dim=1, keepdim=True).values.clamp(min=SMALLEST_RADIUS)
    taper = (1.0 - distance / radius).clamp(min=0.0)
    results = []
    for weights, centres in zip(taper.split(ROWS_AT_ONCE), own.split(ROWS_AT_ONCE), strict=True):
        edge = _normalise(near.unsqueeze(0) + centres.unsqueeze(1), state, f"{name}.norm").clamp(min=0.0)
        results.append((weights.unsqueeze(-1) * edge).amax(dim=1))
    return torch.cat(results)


def _apply_layer(h: torch.Tensor, state: State, name: str) -> torch.Tensor:
    h = _normalise(h @ state[f"{name}.linear.weight"].T, state, f"{name}.norm")
    return torch.maximum(h, SLOPE * h)


def compute_oracle(
    inputs: Mapping[str, torch.Tensor], state: Mapping[str, torch.Tensor], dims: Mapping[str, int]
) -> tuple[torch.Tensor, ...]:
    """Return the logits in float64, one cloud at a time."""
    wide = {name: value.double() for name, value in state.items()}
    logits = []
    for h in inputs["x"].double().mT:
        features = []
        for layer in range(4):
            h = _convolve_edges(h, wide, f"edges.{layer}", dims["K"])
            features.append(h)
        embedded = _apply_layer(torch.cat(features, dim=1), wide, "embed")
        pooled = torch.cat([embedded.amax(dim=0), embedded.mean(dim=0)])
        hidden = _apply_layer(_apply_layer(pooled, wide, "hidden1"), wide, "hidden2")
        logits.append(wide["classify.weight"] @ hidden + wide["classify.bias"])
    return (torch.stack(logits),)
