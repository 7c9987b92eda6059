"""Deep Interest Network: the probability of a click, from a candidate and a history of behaviour."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from verifier.inputs import draw_integers, draw_uniform

ATTENTION_WIDTHS = (80, 40)
HEAD_WIDTHS = (200, 80)
EPSILON = 1e-8


class Dice(nn.Module):
    """y = p x + (1 - p) alpha x, where p is the sigmoid of x normalised by stored statistics."""

    def __init__(self, width: int) -> None:
        super().__init__()
        # As after training.
        self.alpha = nn.Parameter(0.3 * torch.randn(width))
        self.register_buffer("mean", 0.5 * torch.randn(width))
        self.register_buffer("variance", torch.empty(width).uniform_(0.5, 4.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        p = torch.sigmoid((x - self.mean) * torch.rsqrt(self.variance + EPSILON))
        return p * x + (1.0 - p) * self.alpha * x


class Model(nn.Module):
    """p = sigmoid(head(user, candidate, user * candidate)), where user is a weighted sum over the history."""

    def __init__(self, items: int, categories: int, width: int) -> None:
        super().__init__()
        self.item = nn.Embedding(items, width // 2)
        self.category = nn.Embedding(categories, width // 2)
        first, second = ATTENTION_WIDTHS
        self.attention = nn.Sequential(
            nn.Linear(4 * width, first), nn.Sigmoid(), nn.Linear(first, second), nn.Sigmoid(), nn.Linear(second, 1)
        )
        first, second = HEAD_WIDTHS
        self.head = nn.Sequential(
            nn.Linear(3 * width, first), Dice(first), nn.Linear(first, second), Dice(second), nn.Linear(second, 1)
        )

    def embed(self, items: torch.Tensor, categories: torch.Tensor) -> torch.Tensor:
        return torch.cat([self.item(items), self.category(categories)], dim=-1)

    def forward(
        self,
        history_items: torch.Tensor,
        history_categories: torch.Tensor,
        candidate_item: torch.Tensor,
        candidate_category: torch.Tensor,
        length: torch.Tensor,
    ) -> torch.Tensor:
        history = self.embed(history_items, history_categories)
        candidate = self.embed(candidate_item, candidate_category)
        query = candidate.unsqueeze(1).expand_as(history)
        weight = self.attention(torch.cat([history, query, history - query, history * query], dim=-1)).squeeze(-1)
        step = torch.arange(history.shape[1], device=history.device)
        weight = weight.masked_fill(step >= length.unsqueeze(-1), 0.0)
        user = (weight.unsqueeze(-1) * history).sum(dim=1)
        logit = self.head(torch.cat([user, candidate, user * candidate], dim=-1)).squeeze(-1)
        return torch.sigmoid(logit)


def get_init_inputs(dims: Mapping[str, int]) -> list[object]:
    """Return the arguments of the constructor: the number of items and of categories, and the width of both together."""
    return [dims["VI"], dims["VC"], dims["D"]]


def generate(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return seeded inputs. Raises ValueError for another distribution than popular."""
    if distribution != "popular":
        raise ValueError(f"unknown distribution {distribution!r}; known: popular")
    batch, steps = dims["B"], dims["T"]

    def draw_popular(count: int, vocabulary: int) -> torch.Tensor:
        # Log-uniform: the chance of the n-th entry falls like 1 / n.
        rank = (vocabulary + 1.0) ** draw_uniform((count,), 0.0, 1.0, generator)
        return (rank.long() - 1).clamp(0, vocabulary - 1)

    return {
        "history_items": draw_popular(batch * steps, dims["VI"]).view(batch, steps),
        "history_categories": draw_popular(batch * steps, dims["VC"]).view(batch, steps),
        "candidate_item": draw_popular(batch, dims["VI"]),
        "candidate_category": draw_popular(batch, dims["VC"]),
        "length": draw_integers(1, steps + 1, batch, generator),
    }
