"""Gated linear unit with SiLU: hidden inputs and the float64 oracle."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

from verifier.inputs import draw_gaussian, draw_integers, draw_permutation

ROWS_AT_ONCE = 1024
DIFFERENT_ROWS = 4


def _draw_tokens(distribution: str, shape: tuple[int, int], generator: torch.Generator) -> torch.Tensor:
    x = draw_gaussian(shape, generator)
    tokens, features = shape
    match distribution:
        case "large":
            return x * 4.0
        case "small":
            return x / 4.0
        case "sparse-rows":
            x = x[draw_integers(0, DIFFERENT_ROWS, tokens, generator)]
            x[draw_permutation(tokens, generator)[: max(1, tokens // 8)]] = 0.0
            return x
        case "outlier-features":
            x[:, draw_permutation(features, generator)[: max(1, features // 100)]] *= 30.0
            return x
    raise ValueError(f"unknown distribution {distribution!r}")


def generate(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return seeded inputs. Raises ValueError for an unknown distribution."""
    x = _draw_tokens(distribution, (dims["T"], dims["D"]), generator)
    gate, up = draw_gaussian((2, dims["D"], dims["F"]), generator) / math.sqrt(dims["D"])
    return {"x": x.half(), "w_gate": gate.half(), "w_up": up.half()}


def compute_oracle(
    inputs: Mapping[str, torch.Tensor], state: Mapping[str, torch.Tensor], dims: Mapping[str, int]
) -> tuple[torch.Tensor, ...]:
    """Return y in float64, a block of rows at a time."""
    w_gate, w_up = inputs["w_gate"].double(), inputs["w_up"].double()
    x = inputs["x"]
    y = torch.empty(len(x), w_up.shape[1], dtype=torch.float64, device=x.device)
    for rows, result in zip(x.split(ROWS_AT_ONCE), y.split(ROWS_AT_ONCE), strict=True):
        gate = rows.double() @ w_gate
        result.copy_(gate * torch.sigmoid(gate) * (rows.double() @ w_up))
    return (y,)
