"""Group norm, modulation, SiLU and pixel-unshuffle: hidden inputs and the float64 oracle."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from verifier.inputs import draw_gaussian, draw_log_magnitude, draw_uniform

GROUPS = 32
EPSILON = 1e-5


def generate(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return seeded inputs. Raises ValueError for an unknown distribution."""
    batch, channels = dims["B"], dims["C"]
    shape = (batch, channels, dims["H"], dims["W"])
    scale = 0.5 * draw_gaussian((batch, channels), generator)
    shift = 0.5 * draw_gaussian((batch, channels), generator)
    group = draw_gaussian((batch, GROUPS, 1), generator).repeat(1, 1, channels // GROUPS).view(batch, channels, 1, 1)
    match distribution:
        case "large-mean":
            x = draw_gaussian(shape, generator) + 300.0 * group.sign()
        case "equal-groups":
            # Sixteenths: sums of equal values are exact in any order, and the variance is zero in fp32 too.
            x = (torch.round(group * 16.0) / 16.0).expand(shape).contiguous()
        case "log-magnitude":
            x = draw_log_magnitude(shape, generator)
        case "cancelled-channels":
            x = draw_gaussian(shape, generator)
            cancelled = draw_uniform((batch, channels), 0.0, 1.0, generator) < 0.5
            scale, shift = scale.masked_fill(cancelled, -1.0), shift.masked_fill(cancelled, 0.0)
        case _:
            raise ValueError(f"unknown distribution {distribution!r}")
    return {"x": x, "scale": scale, "shift": shift}


def compute_oracle(
    inputs: Mapping[str, torch.Tensor], state: Mapping[str, torch.Tensor], dims: Mapping[str, int]
) -> tuple[torch.Tensor, ...]:
    """Return y in float64, one image at a time: two-pass statistics, one affine map a channel, strided slices."""
    weight, bias = state["norm.weight"].double(), state["norm.bias"].double()
    images = []
    for x, scale, shift in zip(*(inputs[name] for name in ("x", "scale", "shift")), strict=True):
        groups = x.double().view(GROUPS, -1)
        centred = groups - groups.mean(dim=-1, keepdim=True)
        normal = centred / (centred.square().mean(dim=-1, keepdim=True) + EPSILON).sqrt()
        slope = weight * (1.0 + scale.double())
        offset = bias * (1.0 + scale.double()) + shift.double()
        h = normal.view(x.shape) * slope[:, None, None] + offset[:, None, None]
        h = h / (1.0 + torch.exp(-h))
        parts = [h[:, row::2, column::2] for row in range(2) for column in range(2)]
        images.append(torch.stack(parts, dim=1).flatten(0, 1))
    return (torch.stack(images),)
