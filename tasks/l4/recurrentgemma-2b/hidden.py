"""Three layers of RecurrentGemma-2B: hidden inputs and the float64 oracle."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

from verifier.inputs import draw_gaussian, draw_permutation

LAYERS = 3
OUTLIERS = 8
ROWS_AT_ONCE = 4096

State = Mapping[str, torch.Tensor]


def generate(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return seeded inputs. Raises ValueError for an unknown distribution."""
    batch, tokens, width = shape = (dims["B"], dims["S"], dims["D"])
    x = draw_gaussian(shape, generator)
    match distribution:
        case "steady":
            x = 0.1 * x + draw_gaussian((batch, 1, width), generator)
        case "alternating":
            sign = 1.0 - 2.0 * (torch.arange(tokens, device=x.device) % 2).view(-1, 1)
            x = 0.1 * x + sign * draw_gaussian((batch, 1, width), generator)
        case "two-halves":
            halves = draw_gaussian((2, batch, 1, width), generator)
            x = 0.1 * x + torch.where(torch.arange(tokens, device=x.device).view(-1, 1) < tokens // 2, *halves)
        case "outlier-channels":
            x[..., draw_permutation(width, generator)[:OUTLIERS]] *= 20.0
        case _:
            raise ValueError(f"unknown distribution {distribution!r}")
    return {"x": x.half()}


def _project(x: torch.Tensor, state: State, name: str) -> torch.Tensor:
    return x @ state[f"{name}.weight"].double().T


def _normalise(h: torch.Tensor, state: State, name: str) -> torch.Tensor:
    size = h.square().mean(dim=-1, keepdim=True)
    return h * (1.0 + state[f"{name}.weight"].double()) / torch.sqrt(size + 1e-6)


def _gelu(x: torch.Tensor) -> torch.Tensor:
    return x * torch.sigmoid(2.0 * math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3))


def _open_gate(x: torch.Tensor, state: State, name: str) -> torch.Tensor:
    weight, bias = state[f"{name}.weight"].double(), state[f"{name}.bias"].double()
    parts = [part @ matrix for part, matrix in zip(x.chunk(len(weight), dim=-1), weight, strict=True)]
    return torch.sigmoid(torch.cat(parts, dim=-1) + bias.flatten())


def _convolve(x: torch.Tensor, state: State, name: str) -> torch.Tensor:
    weight = state[f"{name}.convolution"].double()
    result = state[f"{name}.convolution_bias"].double().expand_as(x).clone()
    tokens, taps = x.shape[1], weight.shape[1]
    for back in range(min(taps, tokens)):
        result[:, back:] += x[:, : tokens - back] * weight[:, taps - 1 - back]
    return result


def _recur(x: torch.Tensor, state: State, name: str) -> torch.Tensor:
    softplus = torch.logaddexp(state[f"{name}.decay"].double(), x.new_zeros(()))
    a = torch.exp(-8.0 * softplus * _open_gate(x, state, f"{name}.recurrence_gate"))
    b = torch.sqrt((1.0 - a) * (1.0 + a))
    b[:, 0] = 1.0
    b *= _open_gate(x, state, f"{name}.input_gate") * x
    held = torch.zeros_like(b[:, 0])
    for step in range(b.shape[1]):
        held = torch.addcmul(b[:, step], a[:, step], held)
        b[:, step] = held
    return b


def _mix_by_recurrence(x: torch.Tensor, state: State, name: str) -> torch.Tensor:
    held = _recur(_convolve(_project(x, state, f"{name}.input"), state, name), state, name)
    return _project(_gelu(_project(x, state, f"{name}.gate")) * held, state, f"{name}.output")


def _rotate(x: torch.Tensor) -> torch.Tensor:
    """Turn channels c and c + size/4 of [tokens, size] together, as one complex number."""
    tokens, size = x.shape
    quarter = size // 4
    frequency = 10_000.0 ** (-torch.arange(quarter, device=x.device, dtype=torch.float64) / quarter)
    angle = torch.arange(tokens, device=x.device, dtype=torch.float64)[:, None] * frequency
    number = torch.complex(x[:, :quarter], x[:, quarter : 2 * quarter]) * torch.polar(torch.ones_like(angle), angle)
    return torch.cat([number.real, number.imag, x[:, 2 * quarter :]], dim=-1)


def _mix_by_attention(x: torch.Tensor, state: State, name: str, heads: int) -> torch.Tensor:
    size = x.shape[-1] // heads
    later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
    attended = torch.empty_like(x)
    for sequence, result in zip(x, attended, strict=True):
        key, value = _rotate(_project(sequence, state, f"{name}.key")), _project(sequence, state, f"{name}.value")
        queries = _project(sequence, state, f"{name}.query").split(size, dim=-1)
        for query, part in zip(queries, result.split(size, dim=-1), strict=True):
            scores = (_rotate(query) @ key.T / math.sqrt(size)).masked_fill_(later, -math.inf)
            part.copy_(torch.exp(scores - scores.logsumexp(dim=-1, keepdim=True)) @ value)
    return _project(attended, state, f"{name}.output")


def _feed_forward(x: torch.Tensor, state: State, name: str) -> torch.Tensor:
    rows = x.flatten(0, 1).split(ROWS_AT_ONCE)
    gated = [_gelu(_project(part, state, f"{name}.gate")) * _project(part, state, f"{name}.up") for part in rows]
    return _project(torch.cat(gated), state, f"{name}.down").view_as(x)


def compute_oracle(
    inputs: Mapping[str, torch.Tensor], state: Mapping[str, torch.Tensor], dims: Mapping[str, int]
) -> tuple[torch.Tensor, ...]:
    """Return y in float64; the recurrence goes token by token."""
    h = inputs["x"].double()
    for number in range(LAYERS):
        layer = f"layers.{number}"
        normed, temporal = _normalise(h, state, f"{layer}.temporal_norm"), f"{layer}.temporal"
        recurrent = f"{temporal}.decay" in state
        h = h + (
            _mix_by_recurrence(normed, state, temporal)
            if recurrent
            else _mix_by_attention(normed, state, temporal, dims["H"])
        )
        h = h + _feed_forward(_normalise(h, state, f"{layer}.channel_norm"), state, f"{layer}.feed_forward")
    return (h,)
