"""A pair of layers of Gemma-2-9B: hidden inputs and the float64 oracle."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

from verifier.inputs import draw_gaussian, draw_permutation

LAYERS = 2
CHANNELS_PER_LOUD_ONE = 448
LOUD_TO_QUIET = 4.0
OUTLIERS = 8
ROWS_AT_ONCE = 2048

State = Mapping[str, torch.Tensor]


def generate(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return seeded inputs. Raises ValueError for an unknown distribution."""
    tokens, width = dims["S"], dims["D"]
    x = draw_gaussian((1, tokens, width), generator)
    loud = max(2, width // CHANNELS_PER_LOUD_ONE)
    match distribution:
        case "saturating":
            x[..., :loud] = x[..., :loud].sign() * math.sqrt(LOUD_TO_QUIET * width / loud)
        case "sink":
            x[:, 0, loud:] *= 0.1
            x[:, 0, :loud] = math.sqrt(width / loud)
        case "outlier-channels":
            x[..., draw_permutation(width, generator)[:OUTLIERS]] *= 30.0
        case "alike":
            x = 0.1 * x + draw_gaussian((1, 1, width), generator)
        case _:
            raise ValueError(f"unknown distribution {distribution!r}")
    return {"x": x.half()}


def _project(x: torch.Tensor, state: State, name: str) -> torch.Tensor:
    return x @ state[f"{name}.weight"].double().T


def _normalise(h: torch.Tensor, state: State, name: str) -> torch.Tensor:
    size = h.square().mean(dim=-1, keepdim=True)
    return h * (1.0 + state[f"{name}.weight"].double()) / torch.sqrt(size + 1e-6)


def _rotate(x: torch.Tensor) -> torch.Tensor:
    """Turn channels c and c + size/2 of [tokens, size] together, as one complex number."""
    tokens, size = x.shape
    half = size // 2
    frequency = 10_000.0 ** (-torch.arange(half, device=x.device, dtype=torch.float64) / half)
    angle = torch.arange(tokens, device=x.device, dtype=torch.float64)[:, None] * frequency
    number = torch.complex(x[:, :half], x[:, half:]) * torch.polar(torch.ones_like(angle), angle)
    return torch.cat([number.real, number.imag], dim=-1)


def _attend_rows(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, first: int, window: int) -> torch.Tensor:
    """Return the attention of queries from token `first` on over the keys that they may see."""
    begin, end = max(0, first - window + 1), first + len(q)
    distance = torch.arange(first, end, device=q.device)[:, None] - torch.arange(begin, end, device=q.device)
    capped = 50.0 * torch.tanh(q @ k[begin:end].T / (50.0 * math.sqrt(q.shape[1])))
    capped.masked_fill_((distance < 0) | (distance >= window), -math.inf)
    return torch.exp(capped - capped.logsumexp(dim=-1, keepdim=True)) @ v[begin:end]


def _attend(x: torch.Tensor, state: State, name: str, size: int, window: int) -> torch.Tensor:
    queries, keys, values = (
        _project(x, state, f"{name}.{part}").split(size, dim=-1) for part in ("query", "key", "value")
    )
    group = len(queries) // len(keys)
    attended = []
    for head, query in enumerate(queries):
        q, k, v = _rotate(query), _rotate(keys[head // group]), values[head // group]
        rows = [
            _attend_rows(part, k, v, number * ROWS_AT_ONCE, window) for number, part in enumerate(q.split(ROWS_AT_ONCE))
        ]
        attended.append(torch.cat(rows))
    return _project(torch.cat(attended, dim=-1), state, f"{name}.output")


def _feed_forward(x: torch.Tensor, state: State, name: str) -> torch.Tensor:
    results = []
    for rows in x.split(ROWS_AT_ONCE):
        gate = _project(rows, state, f"{name}.gate")
        gate = gate * torch.sigmoid(2.0 * math.sqrt(2.0 / math.pi) * (gate + 0.044715 * gate**3))
        results.append(_project(gate * _project(rows, state, f"{name}.up"), state, f"{name}.down"))
    return torch.cat(results)


def compute_oracle(
    inputs: Mapping[str, torch.Tensor], state: Mapping[str, torch.Tensor], dims: Mapping[str, int]
) -> tuple[torch.Tensor, ...]:
    """Return y in float64, a head and a block of rows at a time."""
    h = inputs["x"][0].double()
    windows = [dims["WIN"], dims["S"]]
    for number, window in zip(range(LAYERS), windows, strict=True):
        layer = f"layers.{number}"
        branch = _attend(_normalise(h, state, f"{layer}.input_norm"), state, f"{layer}.attention", dims["DH"], window)
        h = h + _normalise(branch, state, f"{layer}.attention_norm")
        branch = _feed_forward(_normalise(h, state, f"{layer}.feed_forward_norm"), state, f"{layer}.feed_forward")
        h = h + _normalise(branch, state, f"{layer}.output_norm")
    return (h.unsqueeze(0),)
