"""Gated linear unit with SiLU, in fp16."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import nn
from torch.nn import functional

from verifier.inputs import draw_gaussian


class Model(nn.Module):
    """y = silu(x w_gate) * (x w_up)."""

    def forward(self, x: torch.Tensor, w_gate: torch.Tensor, w_up: torch.Tensor) -> torch.Tensor:
        return functional.silu(x @ w_gate) * (x @ w_up)


def get_init_inputs(dims: Mapping[str, int]) -> list[object]:
    """Return the arguments of the constructor: none."""
    return []


def generate(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return seeded inputs. Raises ValueError for another distribution than gauss."""
    if distribution != "gauss":
        raise ValueError(f"unknown distribution {distribution!r}; known: gauss")
    tokens, features, columns = dims["T"], dims["D"], dims["F"]
    gate, up = draw_gaussian((2, features, columns), generator) / math.sqrt(features)
    return {"x": draw_gaussian((tokens, features), generator).half(), "w_gate": gate.half(), "w_up": up.half()}
