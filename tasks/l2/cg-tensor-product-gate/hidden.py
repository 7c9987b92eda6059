"""Clebsch-Gordan tensor product with a gate: hidden inputs and the float64 oracle."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from verifier.inputs import draw_gaussian, draw_integers, draw_log_magnitude

PATHS = 15
DEGREES = (0, 1, 2)
EXTREME = 30.0
EDGES_AT_ONCE = 4096


def _draw_directions(distribution: str, edges: int, generator: torch.Generator) -> torch.Tensor:
    if distribution == "axis-directions":
        axis = torch.eye(3, device=generator.device)[draw_integers(0, 3, edges, generator)]
        return axis * (2.0 * draw_integers(0, 2, edges, generator).unsqueeze(-1) - 1.0)
    direction = draw_gaussian((edges, 3), generator)
    return direction / direction.norm(dim=-1, keepdim=True)


def _compute_harmonics(direction: torch.Tensor) -> torch.Tensor:
    x, y, z = direction.unbind(-1)
    first = 3.0**0.5 * torch.stack([y, z, x], dim=-1)
    second = 15.0**0.5 * torch.stack(
        [x * y, y * z, (3.0 * z * z - 1.0) / 12.0**0.5, x * z, (x * x - y * y) / 2], dim=-1
    )
    return torch.cat([torch.ones_like(first[..., :1]), first, second], dim=-1)


def generate(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return seeded inputs. Raises ValueError for an unknown distribution."""
    edges, channels = dims["E"], dims["U"]
    x, gate = draw_gaussian((edges, channels, 9), generator), draw_gaussian((edges, channels, 2), generator)
    w = draw_gaussian((edges, PATHS, channels), generator)
    match distribution:
        case "axis-directions":
            pass
        case "scalar-only":
            x[..., 1:] = 0.0
        case "log-magnitude":
            w = w * draw_log_magnitude((edges, 1, channels), generator)
        case "extreme-gates":
            gate = EXTREME * gate
        case _:
            raise ValueError(f"unknown distribution {distribution!r}")
    return {"x": x, "y": _compute_harmonics(_draw_directions(distribution, edges, generator)), "w": w, "gate": gate}


def _embed_paths(coupling: torch.Tensor) -> torch.Tensor:
    """Return the coefficients of all paths in one block for all nine places each, path x 9 x 9 x 9."""
    whole = coupling.new_zeros(PATHS, 9, 9, 9)
    path = 0
    for l1 in DEGREES:
        for l2 in DEGREES:
            for l3 in range(abs(l1 - l2), min(l1 + l2, 2) + 1):
                places = [slice(degree * degree, (degree + 1) ** 2) for degree in (l1, l2, l3)]
                whole[path, places[0], places[1], places[2]] = coupling[path, : 2 * l1 + 1, : 2 * l2 + 1, : 2 * l3 + 1]
                path += 1
    return whole


def compute_oracle(
    inputs: Mapping[str, torch.Tensor], state: Mapping[str, torch.Tensor], dims: Mapping[str, int]
) -> tuple[torch.Tensor, ...]:
    """Return the result in float64, some edges at a time: first all paths weighted to one matrix for each channel."""
    coupling = _embed_paths(state["coupling"].double())
    results = []
    for x, y, w, gate in zip(*(inputs[name].split(EDGES_AT_ONCE) for name in ("x", "y", "w", "gate")), strict=True):
        mixing = torch.einsum("pmnk,en->epmk", coupling, y.double())
        channels = (w.double().mT @ mixing.flatten(2)).view(len(x), -1, 9, 9)
        total = (x.double().unsqueeze(-2) @ channels).squeeze(-2)
        gates = 1.0 / (1.0 + torch.exp(-torch.cat([total[..., :1], gate.double()], dim=-1)))
        results.append(total * gates.repeat_interleave(torch.tensor([1, 3, 5], device=x.device), dim=-1))
    return (torch.cat(results),)
