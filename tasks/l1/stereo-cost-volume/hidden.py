"""Group-wise correlation cost volume: hidden inputs and the float64 oracle."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from verifier.inputs import draw_gaussian, draw_integers, draw_log_magnitude


def _draw_views(
    distribution: str, dims: Mapping[str, int], generator: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    shape = (dims["B"], dims["C"], dims["H"], dims["W"])
    match distribution:
        case "shifted-rows":
            left = draw_gaussian(shape, generator)
            disparity = draw_integers(0, dims["D"], dims["H"], generator).unsqueeze(-1)
            source = (torch.arange(dims["W"], device=left.device) + disparity) % dims["W"]
            return left, left.gather(-1, source.expand(shape))
        case "half-zeros":
            return draw_gaussian(shape, generator).relu(), draw_gaussian(shape, generator).relu()
        case "log-magnitude":
            return draw_log_magnitude(shape, generator), draw_log_magnitude(shape, generator)
        case "equal-planes":
            left, right = draw_gaussian((2, *shape[:2], 1, 1), generator)
            return left.expand(shape).contiguous(), right.expand(shape).contiguous()
    raise ValueError(f"unknown distribution {distribution!r}")


def generate(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return seeded inputs. Raises ValueError for an unknown distribution."""
    left, right = _draw_views(distribution, dims, generator)
    return {"left": left, "right": right}


def compute_oracle(
    inputs: Mapping[str, torch.Tensor], state: Mapping[str, torch.Tensor], dims: Mapping[str, int]
) -> tuple[torch.Tensor, ...]:
    """Return the volume in float64: windows over a view that is padded with zeros, one group and disparity at a time."""
    padding = (dims["D"] - 1, 0)
    shape = (dims["B"], dims["G"], dims["C"] // dims["G"], dims["H"], dims["W"])
    left = inputs["left"].double().view(shape)
    right = torch.nn.functional.pad(inputs["right"].double(), padding).view(*shape[:-1], -1)
    windows = right.unfold(-1, dims["W"], 1).flip(-2)
    volume = left.new_empty(dims["B"], dims["G"], dims["D"], dims["H"], dims["W"])
    for group in range(dims["G"]):
        for disparity in range(dims["D"]):
            window = windows[:, group, :, :, disparity]
            volume[:, group, disparity] = torch.einsum("bcyx,bcyx->byx", left[:, group], window) / shape[2]
    return (volume,)
