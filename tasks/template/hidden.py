"""A matrix plus another one whose columns are scaled: hidden inputs and the float64 oracle."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from verifier.inputs import draw_gaussian, draw_integers, draw_log_magnitude, draw_uniform

ROWS_AT_ONCE = 1024
KEPT_SHARE = 0.1


def generate(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return seeded inputs by name, on the generator's device. Raises ValueError for an unknown distribution."""
    rows, columns = shape = (dims["N"], dims["D"])
    x, z = draw_gaussian(shape, generator), draw_gaussian(shape, generator)
    match distribution:
        case "offset":
            x = x + 100.0
        case "log-magnitude":
            x, z = draw_log_magnitude(shape, generator), draw_log_magnitude(shape, generator)
        case "sparse":
            z = z * (draw_uniform(shape, 0.0, 1.0, generator) < KEPT_SHARE)
        case "one-row":
            chosen = torch.arange(rows, device=x.device) == draw_integers(0, rows, 1, generator)
            x, z = x * chosen.unsqueeze(-1), z * chosen.unsqueeze(-1)
        case _:
            raise ValueError(f"unknown distribution {distribution!r}")
    return {"x": x, "z": z}


def compute_oracle(
    inputs: Mapping[str, torch.Tensor], state: Mapping[str, torch.Tensor], dims: Mapping[str, int]
) -> tuple[torch.Tensor, ...]:
    """Return y in float64, a block of rows at a time, so that no intermediate takes much memory."""
    x, z = inputs["x"], inputs["z"]
    scale = state["scale"].double()
    y = torch.empty(x.shape, dtype=torch.float64, device=x.device)
    for first in range(0, len(x), ROWS_AT_ONCE):
        rows = slice(first, first + ROWS_AT_ONCE)
        torch.addcmul(x[rows].double(), z[rows].double(), scale, out=y[rows])
    return (y,)
