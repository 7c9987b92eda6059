"""Linear layer, batch norm in evaluation mode, squared ReLU: hidden inputs and the float64 oracle."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from verifier.inputs import draw_gaussian, draw_integers, draw_log_magnitude, draw_permutation, draw_uniform

EPSILON = 1e-5
ROWS_AT_ONCE = 2048


def generate(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return seeded inputs. Raises ValueError for an unknown distribution."""
    rows, features = shape = (dims["N"], dims["D"])
    match distribution:
        case "offset":
            x = draw_gaussian(shape, generator) + 3.0
        case "log-magnitude":
            x = draw_log_magnitude(shape, generator) / 100.0
        case "sparse":
            x = draw_gaussian(shape, generator) * (draw_uniform(shape, 0.0, 1.0, generator) < 0.1)
            x[draw_permutation(rows, generator)[: max(1, rows // 8)]] = 0.0
        case "one-hot":
            column = torch.arange(features, device=generator.device)
            x = 4.0 * (column == draw_integers(0, features, rows, generator).unsqueeze(-1)).float()
        case _:
            raise ValueError(f"unknown distribution {distribution!r}")
    return {"x": x}


def compute_oracle(
    inputs: Mapping[str, torch.Tensor], state: Mapping[str, torch.Tensor], dims: Mapping[str, int]
) -> tuple[torch.Tensor, ...]:
    """Return y in float64 from folded weights, a block of rows at a time."""
    wide = {name: value.double() for name, value in state.items()}
    scale = wide["norm.weight"] / torch.sqrt(wide["norm.running_var"] + EPSILON)
    weight = wide["linear.weight"] * scale.unsqueeze(-1)
    bias = (wide["linear.bias"] - wide["norm.running_mean"]) * scale + wide["norm.bias"]
    x = inputs["x"]
    y = torch.empty(len(x), len(weight), dtype=torch.float64, device=x.device)
    for rows, result in zip(x.split(ROWS_AT_ONCE), y.split(ROWS_AT_ONCE), strict=True):
        torch.addmm(bias, rows.double(), weight.T, out=result)
        result.clamp_(min=0.0).square_()
    return (y,)
