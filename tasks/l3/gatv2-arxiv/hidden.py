"""GATv2 node classifier: hidden inputs and the float64 oracle."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from verifier.inputs import (
    GraphKind,
    build_self_loop_graph,
    draw_gaussian,
    draw_log_magnitude,
    draw_uniform,
    list_destinations,
)

EPSILON = 1e-5
NEGATIVE_SLOPE = 0.2
# Features are larger in a narrow model, whose logits are sums of fewer terms.
LARGEST_FEATURE_TIMES_WIDTH = 7000.0
ZERO_SHARE = 0.95

State = Mapping[str, torch.Tensor]

_GRAPHS: dict[str, GraphKind] = {
    "uniform-random": "uniform",
    "large-features": "power-law",
    "heavy-hub": "hub",
    "bag-of-words": "power-law",
}


def _draw_features(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> torch.Tensor:
    shape, largest = (dims["N"], dims["FI"]), LARGEST_FEATURE_TIMES_WIDTH / dims["D"]
    match distribution:
        case "uniform-random":
            return draw_uniform(shape, -1.0, 1.0, generator)
        case "large-features":
            return draw_log_magnitude(shape, generator).clamp(-largest, largest)
        case "heavy-hub":
            return draw_gaussian(shape, generator)
        case "bag-of-words":
            return draw_gaussian(shape, generator) * (draw_uniform(shape, 0.0, 1.0, generator) > ZERO_SHARE)
    raise ValueError(f"unknown distribution {distribution!r}")


def generate(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return seeded inputs. Raises ValueError for an unknown distribution."""
    x = _draw_features(distribution, dims, generator)
    rowptr, col = build_self_loop_graph(_GRAPHS[distribution], dims["N"], dims["E"], generator)
    return {"x": x, "rowptr": rowptr, "col": col, "row": list_destinations(rowptr, dims["E"])}


def _attend_head(
    values: torch.Tensor, targets: torch.Tensor, att: torch.Tensor, col: torch.Tensor, row: torch.Tensor
) -> torch.Tensor:
    """Return the weighted sums of one head, N x F, with weights by log-sum-exp."""
    logits = values.new_zeros(len(col))
    for feature in range(len(att)):
        summed = values[col, feature] + targets[row, feature]
        logits += att[feature] * torch.maximum(summed, NEGATIVE_SLOPE * summed)
    largest = torch.full_like(values[:, 0], -torch.inf).scatter_reduce(0, row, logits, "amax")
    total = torch.zeros_like(largest).index_add(0, row, torch.exp(logits - largest[row]))
    weights = torch.exp(logits - (largest + total.log())[row])
    aggregated = torch.zeros_like(values)
    for feature in range(len(att)):
        aggregated[:, feature].index_add_(0, row, weights * values[col, feature])
    return aggregated


def _attend(h: torch.Tensor, graph: Mapping[str, torch.Tensor], state: State, name: str) -> torch.Tensor:
    att = state[f"{name}.att"]
    values, targets = (
        (h @ state[f"{name}.{side}.weight"].T + state[f"{name}.{side}.bias"]).tensor_split(len(att), dim=1)
        for side in ("source", "target")
    )
    heads = [_attend_head(*parts, graph["col"], graph["row"]) for parts in zip(values, targets, att, strict=True)]
    return torch.cat(heads, dim=1) + state[f"{name}.bias"]


def _normalise(h: torch.Tensor, state: State, name: str) -> torch.Tensor:
    scale = state[f"{name}.weight"] / torch.sqrt(state[f"{name}.variance"] + EPSILON)
    h = (h - state[f"{name}.mean"]) * scale + state[f"{name}.bias"]
    return torch.where(h > 0.0, h, torch.expm1(h))


def compute_oracle(
    inputs: Mapping[str, torch.Tensor], state: Mapping[str, torch.Tensor], dims: Mapping[str, int]
) -> tuple[torch.Tensor, ...]:
    """Return the logits in float64, one head and one feature of all edges at a time."""
    wide = {name: value.double() for name, value in state.items()}
    h = _normalise(_attend(inputs["x"].double(), inputs, wide, "attention1"), wide, "norm1")
    h = _normalise(_attend(h, inputs, wide, "attention2"), wide, "norm2")
    return (_attend(h, inputs, wide, "attention3"),)
