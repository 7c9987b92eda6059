"""Mean, variance, argmax and standardised rows: hidden inputs and the float64 oracle."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from verifier.inputs import draw_gaussian, draw_permutation, draw_uniform

EPSILON = 1e-3
ROWS_AT_ONCE = 1024


def generate(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return seeded inputs. Raises ValueError for an unknown distribution."""
    rows, columns = dims["M"], dims["D"]
    x = draw_gaussian((rows, columns), generator)
    match distribution:
        case "offset":
            x = x + 100.0
        case "ties":
            x = (torch.round(x * 2.0) / 2.0).clamp(max=2.0)
        case "constant-rows":
            constant = draw_permutation(rows, generator)[: max(1, rows // 4)]
            # In quarters, so that every order of summing gives the exact mean.
            x[constant] = torch.round(draw_gaussian((len(constant), 1), generator) * 4.0) / 4.0
        case "below-zero":
            x = (-x.abs() - 0.1) * 10.0 ** draw_uniform((rows, 1), 0.0, 2.0, generator)
        case _:
            raise ValueError(f"unknown distribution {distribution!r}")
    return {"x": x}


def find_first_largest(x: torch.Tensor) -> torch.Tensor:
    """Return the index of the first largest entry of each row, int64."""
    column = torch.arange(x.shape[-1], 0, -1, device=x.device)
    return x.shape[-1] - (column * (x == x.amax(dim=-1, keepdim=True))).amax(dim=-1)


def compute_oracle(
    inputs: Mapping[str, torch.Tensor], state: Mapping[str, torch.Tensor], dims: Mapping[str, int]
) -> tuple[torch.Tensor, ...]:
    """Return mean, variance and z in float64 and the indices in int64, a block of rows at a time."""
    x = inputs["x"]
    mean, variance = torch.empty(2, len(x), dtype=torch.float64, device=x.device)
    largest = torch.empty(len(x), dtype=torch.int64, device=x.device)
    z = torch.empty(x.shape, dtype=torch.float64, device=x.device)
    for first in range(0, len(x), ROWS_AT_ONCE):
        rows = slice(first, first + ROWS_AT_ONCE)
        block = x[rows].double()
        mean[rows] = block.sum(dim=-1) / block.shape[-1]
        centred = block - mean[rows, None]
        variance[rows] = centred.square().sum(dim=-1) / (block.shape[-1] - 1)
        largest[rows] = find_first_largest(block)
        z[rows] = centred / torch.sqrt(variance[rows, None] + EPSILON)
    return mean, variance, largest, z
