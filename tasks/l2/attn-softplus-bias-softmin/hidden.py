"""Self-attention with softplus, bias and softmin: hidden inputs and the float64 oracle."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

from verifier.inputs import draw_gaussian, draw_integers, draw_permutation, draw_uniform

ROWS_AT_ONCE = 1024
DIRECTION_SCORE = 159.0
LARGEST_PROTOTYPES = 64


def generate(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return seeded inputs. Raises ValueError for an unknown distribution."""
    batch, tokens, features = shape = (dims["B"], dims["S"], dims["D"])
    x = draw_gaussian(shape, generator)
    match distribution:
        case "broad":
            x = 0.5 * x + draw_gaussian((batch, 1, features), generator)
        case "scaled-direction":
            direction = torch.nn.functional.normalize(draw_gaussian((features,), generator), dim=0)
            # Two tokens with s = 1 get the score DIRECTION_SCORE, whatever the number of features.
            length = math.sqrt(DIRECTION_SCORE * math.sqrt(features))
            x = 0.3 * x + draw_uniform((batch, tokens, 1), 0.5, 2.0, generator) * length * direction
        case "large-norm-outliers":
            x[:, draw_permutation(tokens, generator)[: max(1, tokens // 100)]] *= 6.0
        case "clustered":
            prototypes = draw_gaussian((min(LARGEST_PROTOTYPES, tokens // 4), features), generator)
            choice = draw_integers(0, len(prototypes), batch * tokens, generator)
            x = 0.1 * x + prototypes[choice].view(shape)
        case _:
            raise ValueError(f"unknown distribution {distribution!r}")
    return {"x": x}


def compute_oracle(
    inputs: Mapping[str, torch.Tensor], state: Mapping[str, torch.Tensor], dims: Mapping[str, int]
) -> tuple[torch.Tensor, ...]:
    """Return y in float64 from explicit weights, a block of rows at a time."""
    x, bias = inputs["x"].double(), state["bias"].double()
    y = torch.empty_like(x)
    for sequence, result in zip(x, y, strict=True):
        for first in range(0, len(sequence), ROWS_AT_ONCE):
            rows = slice(first, first + ROWS_AT_ONCE)
            scores = sequence[rows] @ sequence.T / math.sqrt(sequence.shape[1])
            weights = torch.exp(scores - scores.logsumexp(dim=-1, keepdim=True))
            attended = weights @ sequence
            energy = torch.logaddexp(attended, torch.zeros_like(attended)) + bias
            result[rows] = torch.exp(-energy - (-energy).logsumexp(dim=-1, keepdim=True))
    return (y,)
