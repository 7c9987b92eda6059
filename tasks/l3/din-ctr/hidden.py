"""Deep Interest Network: hidden inputs and the float64 oracle."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from verifier.inputs import draw_integers, draw_permutation

EPSILON = 1e-8
SAMPLES_AT_ONCE = 1024

State = Mapping[str, torch.Tensor]


def _repeat_candidates(
    history: torch.Tensor, candidate: torch.Tensor, generator: torch.Generator, one_in: int
) -> torch.Tensor:
    """Return the history with the candidate at one place in so many."""
    here = draw_integers(0, one_in, history.numel(), generator).view(history.shape) == 0
    return torch.where(here, candidate.unsqueeze(-1), history)


def generate(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return seeded inputs. Raises ValueError for an unknown distribution."""
    batch, steps = dims["B"], dims["T"]
    items = draw_integers(0, dims["VI"], batch * steps, generator).view(batch, steps)
    categories = draw_integers(0, dims["VC"], batch * steps, generator).view(batch, steps)
    candidate_item = draw_integers(0, dims["VI"], batch, generator)
    candidate_category = draw_integers(0, dims["VC"], batch, generator)
    length = torch.full_like(candidate_item, steps)
    match distribution:
        case "uniform-full":
            pass
        case "short":
            # Every length from nothing to three in turn, so that each occurs.
            length = draw_permutation(batch, generator) % 4
        case "repeat-candidate":
            items = _repeat_candidates(items, candidate_item, generator, 2)
            categories = _repeat_candidates(categories, candidate_category, generator, 2)
            length = draw_integers(1, steps + 1, batch, generator)
        case "one-interest":
            items, categories = items[:, :1].repeat(1, steps), categories[:, :1].repeat(1, steps)
        case _:
            raise ValueError(f"unknown distribution {distribution!r}")
    return {
        "history_items": items,
        "history_categories": categories,
        "candidate_item": candidate_item,
        "candidate_category": candidate_category,
        "length": length,
    }


def _project(x: torch.Tensor, state: State, name: str) -> torch.Tensor:
    return x @ state[f"{name}.weight"].T + state[f"{name}.bias"]


def _activate(x: torch.Tensor, state: State, name: str) -> torch.Tensor:
    """Blend x and alpha x by the odds of the normalised value."""
    z = (x - state[f"{name}.mean"]) / torch.sqrt(state[f"{name}.variance"] + EPSILON)
    alpha = state[f"{name}.alpha"]
    return x * (alpha + (1.0 - alpha) / (1.0 + torch.exp(-z)))


def _embed(items: torch.Tensor, categories: torch.Tensor, state: State) -> torch.Tensor:
    return torch.cat([state["item.weight"][items], state["category.weight"][categories]], dim=-1).double()


def _weigh(history: torch.Tensor, candidate: torch.Tensor, state: State) -> torch.Tensor:
    """Return the weight of every step, from the first layer's weights split by what they multiply."""
    own, query, difference, product = state["attention.0.weight"].split(history.shape[-1], dim=-1)
    hidden = history @ (own + difference).T + (history * candidate.unsqueeze(1)) @ product.T
    hidden = hidden + (candidate @ (query - difference).T + state["attention.0.bias"]).unsqueeze(1)
    hidden = torch.sigmoid(_project(torch.sigmoid(hidden), state, "attention.2"))
    return _project(hidden, state, "attention.4")


def _predict(part: list[torch.Tensor], state: State) -> torch.Tensor:
    items, categories, candidate_item, candidate_category, length = part
    history = _embed(items, categories, state)
    candidate = _embed(candidate_item, candidate_category, state)
    inside = torch.arange(items.shape[1], device=items.device) < length.unsqueeze(-1)
    user = (_weigh(history, candidate, state) * history * inside.unsqueeze(-1)).sum(dim=1)
    hidden = _project(torch.cat([user, candidate, user * candidate], dim=-1), state, "head.0")
    hidden = _project(_activate(hidden, state, "head.1"), state, "head.2")
    return torch.sigmoid(_project(_activate(hidden, state, "head.3"), state, "head.4").squeeze(-1))


def compute_oracle(
    inputs: Mapping[str, torch.Tensor], state: Mapping[str, torch.Tensor], dims: Mapping[str, int]
) -> tuple[torch.Tensor, ...]:
    """Return the probabilities in float64, some samples at a time."""
    tables = {"item.weight", "category.weight"}
    wide = {name: value if name in tables else value.double() for name, value in state.items()}
    parts = zip(*(value.split(SAMPLES_AT_ONCE) for value in inputs.values()), strict=True)
    return (torch.cat([_predict(list(part), wide) for part in parts]),)
