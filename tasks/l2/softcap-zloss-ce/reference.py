"""Soft-capped cross-entropy with label smoothing, z-loss and ignored rows."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from verifier.inputs import draw_gaussian, draw_integers, draw_permutation

CAP = 30.0
SMOOTHING = 0.1
Z_WEIGHT = 1e-4
IGNORED = -100
ONE_IGNORED_ROW_IN = 20


class Model(nn.Module):
    """Loss and log-sum-exp of each row of logits, as described in the instruction."""

    def forward(self, logits: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        capped = CAP * torch.tanh(logits / CAP)
        lse = torch.logsumexp(capped, dim=-1)
        target = capped.gather(-1, labels.clamp(min=0).unsqueeze(-1)).squeeze(-1)
        entropy = lse - (1.0 - SMOOTHING) * target - SMOOTHING * capped.mean(dim=-1)
        loss = entropy + Z_WEIGHT * lse.square()
        return loss.masked_fill(labels == IGNORED, 0.0), lse


def get_init_inputs(dims: Mapping[str, int]) -> list[object]:
    """Return the arguments of the constructor: none."""
    return []


def generate(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return seeded inputs. Raises ValueError for another distribution than gauss."""
    if distribution != "gauss":
        raise ValueError(f"unknown distribution {distribution!r}; known: gauss")
    logits = 3.0 * draw_gaussian((dims["M"], dims["V"]), generator)
    labels = draw_integers(0, dims["V"], dims["M"], generator)
    ignored = draw_permutation(dims["M"], generator) < max(1, dims["M"] // ONE_IGNORED_ROW_IN)
    return {"logits": logits, "labels": labels.masked_fill(ignored, IGNORED)}
