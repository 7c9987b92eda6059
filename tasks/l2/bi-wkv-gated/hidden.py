"""Bidirectional WKV attention: hidden inputs and the float64 oracle."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from verifier.inputs import draw_gaussian, draw_integers

EPSILON = 1e-5
LARGE = 15.0
OFFSET = 100.0
OUTLIER = 60.0
FAR_SHARE = 12


def generate(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return seeded inputs. Raises ValueError for an unknown distribution."""
    batch, tokens = dims["B"], dims["T"]
    k, v, r = draw_gaussian((3, batch, tokens, dims["C"]), generator)
    match distribution:
        case "large-keys":
            k = LARGE * k
        case "offset-keys":
            k = k + OFFSET
        case "far-keys":
            ends = max(1, tokens // FAR_SHARE)
            k[:, ends : tokens - ends] -= LARGE
        case "outlier-token":
            k[torch.arange(batch, device=k.device), draw_integers(0, tokens, batch, generator)] = OUTLIER
        case _:
            raise ValueError(f"unknown distribution {distribution!r}")
    return {"k": k, "v": v, "r": r}


def _accumulate(logs: torch.Tensor, slope: torch.Tensor) -> torch.Tensor:
    """Return the logarithm of the sum over i < t of exp(logs[i] - (t - 1 - i) slope), B x T x C; slope is 1 x 1 x C."""
    place = torch.arange(logs.shape[1], device=logs.device, dtype=logs.dtype).view(1, -1, 1)
    totals = torch.logcumsumexp(logs + place * slope, dim=1)
    before = torch.cat([torch.full_like(totals[:, :1], -torch.inf), totals[:, :-1]], dim=1)
    return before - (place - 1) * slope


def _sum_weights(logs: torch.Tensor, slope: torch.Tensor, bonus: torch.Tensor) -> torch.Tensor:
    """Return the logarithm of the sum of exp(logs) with the weights of each token, from both sides and itself."""
    left = _accumulate(logs, slope)
    right = _accumulate(logs.flip(1), slope).flip(1)
    return torch.logaddexp(torch.logaddexp(left, right), logs + bonus)


def compute_oracle(
    inputs: Mapping[str, torch.Tensor], state: Mapping[str, torch.Tensor], dims: Mapping[str, int]
) -> tuple[torch.Tensor, ...]:
    """Return y in float64: logarithms of running sums, of the positive and the negative values apart."""
    k, v, r = (inputs[name].double() for name in ("k", "v", "r"))
    slope, bonus = state["decay"].double().view(1, 1, -1) / dims["T"], state["bonus"].double()
    total = _sum_weights(k, slope, bonus)
    positive = _sum_weights(k + v.clamp(min=0.0).log(), slope, bonus)
    negative = _sum_weights(k + (-v).clamp(min=0.0).log(), slope, bonus)
    gated = (torch.exp(positive - total) - torch.exp(negative - total)) / (1.0 + torch.exp(-r))
    centred = gated - gated.mean(dim=-1, keepdim=True)
    deviation = torch.sqrt(centred.square().mean(dim=-1, keepdim=True) + EPSILON)
    return (centred / deviation * state["norm.weight"] + state["norm.bias"],)
