"""Bidirectional WKV attention with a sigmoid gate and a layer norm, as in Vision-RWKV."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from verifier.inputs import draw_gaussian

FASTEST_DECAY = 200.0


class Model(nn.Module):
    """y = norm(sigmoid(r) * wkv), wkv a mean of v with weights exp(k) that decay with the distance in both directions."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        # From channels that see the whole sequence to channels that see only the nearest tokens.
        self.decay = nn.Parameter(FASTEST_DECAY * torch.rand(channels) ** 8)
        self.bonus = nn.Parameter(torch.randn(channels))
        self.norm = nn.LayerNorm(channels)
        # As after training: a fresh norm has neither scale nor shift.
        nn.init.normal_(self.norm.weight, 1.0, 0.2)
        nn.init.normal_(self.norm.bias, 0.0, 0.2)

    def forward(self, k: torch.Tensor, v: torch.Tensor, r: torch.Tensor) -> torch.Tensor:
        tokens = k.shape[1]
        place = torch.arange(tokens, device=k.device)
        distance = (place.unsqueeze(1) - place).abs()
        # The logits of channel c: entry (t, i) is what token i weighs for token t, B x C x T x T.
        others = k.mT.unsqueeze(2) - (distance - 1) / tokens * self.decay.view(-1, 1, 1)
        itself = (k + self.bonus).mT.unsqueeze(2)
        weights = torch.softmax(torch.where(distance == 0, itself, others), dim=-1)
        wkv = (weights * v.mT.unsqueeze(2)).sum(dim=-1).mT
        return self.norm(torch.sigmoid(r) * wkv)


def get_init_inputs(dims: Mapping[str, int]) -> list[object]:
    """Return the arguments of the constructor: the number of channels."""
    return [dims["C"]]


def generate(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return seeded inputs. Raises ValueError for another distribution than gauss."""
    if distribution != "gauss":
        raise ValueError(f"unknown distribution {distribution!r}; known: gauss")
    k, v, r = draw_gaussian((3, dims["B"], dims["T"], dims["C"]), generator)
    return {"k": k, "v": v, "r": r}
