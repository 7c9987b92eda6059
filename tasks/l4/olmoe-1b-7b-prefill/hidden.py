"""Layers of OLMoE-1B-7B: hidden inputs and the float64 oracle."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

from verifier.inputs import draw_gaussian, draw_integers, draw_permutation

CLUSTERS = 2
OUTLIERS = 8
ONE_PADDING_IN = 4

State = Mapping[str, torch.Tensor]


def generate(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return seeded inputs. Raises ValueError for an unknown distribution."""
    batch, tokens, width = shape = (dims["B"], dims["S"], dims["D"])
    x = draw_gaussian(shape, generator)
    match distribution:
        case "two-clusters":
            choice = draw_integers(0, CLUSTERS, batch * tokens, generator)
            x = 0.1 * x + draw_gaussian((CLUSTERS, width), generator)[choice].view(shape)
        case "one-expert-set":
            x = 0.01 * x + draw_gaussian((width,), generator)
        case "outlier-channels":
            x[..., draw_permutation(width, generator)[:OUTLIERS]] *= 30.0
        case "padding-like":
            place = draw_permutation(batch * tokens, generator)[: batch * tokens // ONE_PADDING_IN]
            x.view(-1, width)[place] = draw_gaussian((width,), generator)
        case _:
            raise ValueError(f"unknown distribution {distribution!r}")
    return {"x": x.half()}


def _project(x: torch.Tensor, state: State, name: str) -> torch.Tensor:
    return x @ state[f"{name}.weight"].double().T


def _normalise(h: torch.Tensor, state: State, name: str) -> torch.Tensor:
    size = h.square().mean(dim=-1, keepdim=True)
    return h * state[f"{name}.weight"].double() / torch.sqrt(size + 1e-5)


def _rotate(x: torch.Tensor) -> torch.Tensor:
    """Turn channels c and c + size/2 of [tokens, size] together, as one complex number."""
    tokens, size = x.shape
    half = size // 2
    frequency = 10_000.0 ** (-torch.arange(half, device=x.device, dtype=torch.float64) / half)
    angle = torch.arange(tokens, device=x.device, dtype=torch.float64)[:, None] * frequency
    number = torch.complex(x[:, :half], x[:, half:]) * torch.polar(torch.ones_like(angle), angle)
    return torch.cat([number.real, number.imag], dim=-1)


def _attend(x: torch.Tensor, state: State, name: str, heads: int) -> torch.Tensor:
    size = x.shape[-1] // heads
    later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
    attended = torch.empty_like(x)
    for sequence, result in zip(x, attended, strict=True):
        queries = _normalise(_project(sequence, state, f"{name}.query"), state, f"{name}.query_norm")
        keys = _normalise(_project(sequence, state, f"{name}.key"), state, f"{name}.key_norm")
        values = _project(sequence, state, f"{name}.value")
        heads_of = [part.split(size, dim=-1) for part in (queries, keys, values, result)]
        for query, key, value, part in zip(*heads_of, strict=True):
            scores = (_rotate(query) @ _rotate(key).T / math.sqrt(size)).masked_fill_(later, -math.inf)
            part.copy_(torch.exp(scores - scores.logsumexp(dim=-1, keepdim=True)) @ value)
    return _project(attended, state, f"{name}.output")


def _mix(x: torch.Tensor, state: State, name: str, chosen: int) -> torch.Tensor:
    """Weigh every expert by how far it is likelier than the first one that is not chosen, if it is."""
    tokens = x.flatten(0, 1)
    logits = _project(tokens, state, f"{name}.router")
    likelihood = torch.exp(logits - logits.logsumexp(dim=-1, keepdim=True))
    threshold = likelihood.kthvalue(likelihood.shape[-1] - chosen, dim=-1, keepdim=True).values
    weights = (likelihood - threshold).clamp(min=0.0)
    total = torch.zeros_like(tokens)
    for number, (gate_up, down) in enumerate(zip(state[f"{name}.gate_up"], state[f"{name}.down"], strict=True)):
        token = weights[:, number].nonzero().flatten()
        gate, up = (tokens[token] @ gate_up.double().T).chunk(2, dim=-1)
        hidden = gate * torch.sigmoid(gate) * up * weights[token, number].unsqueeze(-1)
        total[token] += hidden @ down.double().T
    return total.view_as(x)


def compute_oracle(
    inputs: Mapping[str, torch.Tensor], state: Mapping[str, torch.Tensor], dims: Mapping[str, int]
) -> tuple[torch.Tensor, ...]:
    """Return y in float64, a head or an expert at a time."""
    h = inputs["x"].double()
    for number in range(dims["LAY"]):
        layer = f"layers.{number}"
        h = h + _attend(_normalise(h, state, f"{layer}.attention_norm"), state, f"{layer}.attention", dims["H"])
        h = h + _mix(_normalise(h, state, f"{layer}.mixture_norm"), state, f"{layer}.mixture", dims["K"])
    return (h,)
