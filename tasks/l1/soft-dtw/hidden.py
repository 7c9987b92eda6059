"""Soft-DTW alignment value of a batch of cost matrices: hidden inputs and the float64 oracle."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from verifier.inputs import draw_log_magnitude, draw_uniform

SMOOTHING = 0.1
LARGEST_CONSTANT = 0.25
RIDGE_WALL = 50.0


def _find_ridge(rows: int, columns: int, device: torch.device) -> torch.Tensor:
    """Return the cells of a staircase from corner to corner, bool (rows, columns)."""
    row = torch.arange(rows, device=device).unsqueeze(1)
    column = torch.arange(columns, device=device)
    return (row * columns // rows == column) | (column * rows // columns == row)


def generate(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return seeded inputs. Raises ValueError for an unknown distribution."""
    batch, rows, columns = shape = (dims["B"], dims["n"], dims["m"])
    match distribution:
        case "uniform":
            cost = draw_uniform(shape, 0.0, 1.0, generator)
        case "heavy":
            cost = draw_log_magnitude(shape, generator).abs()
        case "constant":
            cost = draw_uniform((batch, 1, 1), 0.0, LARGEST_CONSTANT, generator).expand(shape).contiguous()
        case "ridge":
            cost = draw_uniform(shape, 0.0, 0.1, generator)
            cost += RIDGE_WALL * ~_find_ridge(rows, columns, cost.device)
        case _:
            raise ValueError(f"unknown distribution {distribution!r}")
    return {"cost": cost}


def compute_oracle(
    inputs: Mapping[str, torch.Tensor], state: Mapping[str, torch.Tensor], dims: Mapping[str, int]
) -> tuple[torch.Tensor, ...]:
    """Return the value in float64, row after row.

    Within a row, exp(-R/g) obeys a linear recurrence along the columns, so R is a cumulative log-sum-exp after the
    row's summed costs are taken out.
    """
    logarithm = -inputs["cost"].double() / SMOOTHING
    batch, rows, columns = logarithm.shape
    summed = logarithm.cumsum(dim=2)
    above = logarithm.new_full((batch, columns), -torch.inf)
    corner = torch.nn.functional.pad(above[:, 1:], (1, 0), value=0.0)
    for row in range(rows):
        arrivals = torch.logaddexp(above, corner)
        above = summed[:, row] + torch.logcumsumexp(arrivals + logarithm[:, row] - summed[:, row], dim=1)
        corner = torch.nn.functional.pad(above[:, :-1], (1, 0), value=-torch.inf)
    return (-SMOOTHING * above[:, -1],)
