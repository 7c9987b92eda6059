"""Fast Walsh-Hadamard transform of long rows: hidden inputs and the float64 oracle."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

from verifier.inputs import draw_gaussian, draw_integers, draw_log_magnitude


def generate(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return seeded inputs. Raises ValueError for an unknown distribution."""
    rows, columns = shape = (dims["M"], dims["D"])
    match distribution:
        case "one-hot":
            place = draw_integers(0, columns, rows, generator).unsqueeze(-1)
            x = torch.zeros(shape, device=generator.device)
            return {"x": x.scatter_(1, place, draw_gaussian((rows, 1), generator))}
        case "equal-entries":
            return {"x": draw_gaussian((rows, 1), generator).repeat(1, columns)}
        case "log-magnitude":
            return {"x": draw_log_magnitude(shape, generator)}
        case "walsh-rows":
            chosen = draw_integers(0, columns, rows, generator)
            return {"x": compute_signs(chosen, columns) * draw_gaussian((rows, 1), generator)}
    raise ValueError(f"unknown distribution {distribution!r}")


def compute_signs(rows: torch.Tensor, columns: int) -> torch.Tensor:
    """Return rows of Sylvester's Hadamard matrix: -1 where row and column have an odd number of ones in common."""
    parity = rows.int().unsqueeze(-1) & torch.arange(columns, dtype=torch.int32, device=rows.device)
    for shift in (16, 8, 4, 2, 1):
        parity ^= parity >> shift
    return 1.0 - 2.0 * (parity & 1).float()


def compute_oracle(
    inputs: Mapping[str, torch.Tensor], state: Mapping[str, torch.Tensor], dims: Mapping[str, int]
) -> tuple[torch.Tensor, ...]:
    """Return y in float64 by a product with the matrix itself."""
    x = inputs["x"].double()
    hadamard = compute_signs(torch.arange(dims["D"], device=x.device), dims["D"]).double()
    return (x @ hadamard / math.sqrt(dims["D"]),)
