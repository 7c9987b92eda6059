"""A small transformer: hidden inputs and the float64 oracle."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

from verifier.inputs import draw_integers, draw_zipf

BLOCKS = 2
HEADS = 4
EPSILON = 1e-5
SEQUENCES_AT_ONCE = 4

State = Mapping[str, torch.Tensor]


def _draw_ids(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> torch.Tensor:
    batch, tokens, vocabulary = dims["B"], dims["S"], dims["V"]
    count = batch * tokens
    match distribution:
        case "zipf":
            return (draw_zipf(count, generator).long() - 1).remainder(vocabulary).view(batch, tokens)
        case "one-token":
            return draw_integers(0, vocabulary, batch, generator).unsqueeze(-1).repeat(1, tokens)
        case "ends-of-the-vocabulary":
            return (draw_integers(0, 2, count, generator) * (vocabulary - 1)).view(batch, tokens)
        case "padded":
            ids = draw_integers(0, vocabulary, count, generator).view(batch, tokens)
            length = draw_integers(1, tokens, batch, generator)
            ids[torch.arange(tokens, device=ids.device) >= length.unsqueeze(-1)] = 0
            return ids
    raise ValueError(f"unknown distribution {distribution!r}")


def generate(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return seeded inputs. Raises ValueError for an unknown distribution."""
    return {"ids": _draw_ids(distribution, dims, generator)}


def _normalise(h: torch.Tensor, state: State, name: str) -> torch.Tensor:
    centred = h - h.mean(dim=-1, keepdim=True)
    deviation = torch.sqrt(centred.square().mean(dim=-1, keepdim=True) + EPSILON)
    return centred / deviation * state[f"{name}.weight"] + state[f"{name}.bias"]


def _project(h: torch.Tensor, state: State, name: str) -> torch.Tensor:
    return h @ state[f"{name}.weight"].T + state[f"{name}.bias"]


def _attend(h: torch.Tensor, state: State, block: str) -> torch.Tensor:
    heads = []
    for part in _project(h, state, f"{block}.qkv").tensor_split(3, dim=-1):
        heads.append(torch.stack(part.tensor_split(HEADS, dim=-1), dim=1))
    q, k, v = heads
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    attended = torch.exp(scores - scores.logsumexp(dim=-1, keepdim=True)) @ v
    return _project(torch.cat(attended.unbind(1), dim=-1), state, f"{block}.merge")


def _feed_forward(h: torch.Tensor, state: State, block: str) -> torch.Tensor:
    hidden = _project(h, state, f"{block}.expand")
    hidden = 0.5 * hidden * torch.erfc(-hidden / math.sqrt(2.0))
    return _project(hidden, state, f"{block}.contract")


def compute_oracle(
    inputs: Mapping[str, torch.Tensor], state: Mapping[str, torch.Tensor], dims: Mapping[str, int]
) -> tuple[torch.Tensor, ...]:
    """Return the logits in float64, a few sequences at a time."""
    wide = {name: value.double() for name, value in state.items()}
    logits = []
    for ids in inputs["ids"].split(SEQUENCES_AT_ONCE):
        h = wide["tokens.weight"][ids] + wide["positions"]
        for number in range(BLOCKS):
            block = f"blocks.{number}"
            h = h + _attend(_normalise(h, wide, f"{block}.norm1"), wide, block)
            h = h + _feed_forward(_normalise(h, wide, f"{block}.norm2"), wide, block)
        logits.append(_project(_normalise(h, wide, "norm").mean(dim=1), wide, "head"))
    return (torch.cat(logits),)
