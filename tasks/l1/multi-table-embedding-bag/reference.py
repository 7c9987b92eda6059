"""26 weighted embedding bags in one operator."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn
from torch.nn import functional

from verifier.inputs import draw_gaussian, draw_integers, draw_uniform


class Model(nn.Module):
    """Weighted sums of the rows that each bag looks up, for several tables side by side."""

    def __init__(self, count: int, rows: int, width: int) -> None:
        super().__init__()
        self.tables = nn.Parameter(torch.randn(count, rows, width))

    def forward(self, index: torch.Tensor, weight: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        pooled = [
            functional.embedding_bag(
                index[table],
                self.tables[table],
                offsets[table],
                mode="sum",
                per_sample_weights=weight[table],
                include_last_offset=True,
            )
            for table in range(len(self.tables))
        ]
        return torch.cat(pooled, dim=-1)


def get_init_inputs(dims: Mapping[str, int]) -> list[object]:
    """Return the arguments of the constructor: the number of tables, and rows and columns of each."""
    return [dims["F"], dims["V"], dims["D"]]


def draw_popular_rows(dims: Mapping[str, int], generator: torch.Generator) -> torch.Tensor:
    """Return (F, L) indices: the rank of a row is V^u with u uniform, and ranks stand in another order in every table."""
    rows = dims["V"]
    rank = (rows ** draw_uniform((dims["F"], dims["L"]), 0.0, 1.0, generator)).long() - 1
    step = 2 * draw_integers(rows // 8, rows // 4, dims["F"], generator) + 1
    # Distinct ranks may meet in a row; that only makes it more popular.
    return (rank * step.unsqueeze(-1)) % rows


def draw_ragged_offsets(dims: Mapping[str, int], generator: torch.Generator) -> torch.Tensor:
    """Return (F, B + 1) offsets that cut the L look-ups of a table at random places."""
    tables, bags, lookups = dims["F"], dims["B"], dims["L"]
    cuts = draw_integers(0, lookups + 1, tables * (bags - 1), generator).view(tables, -1).sort(dim=-1).values
    return torch.nn.functional.pad(torch.nn.functional.pad(cuts, (1, 0)), (0, 1), value=lookups)


def generate(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return seeded inputs. Raises ValueError for another distribution than zipf."""
    if distribution != "zipf":
        raise ValueError(f"unknown distribution {distribution!r}; known: zipf")
    return {
        "index": draw_popular_rows(dims, generator),
        "weight": draw_gaussian((dims["F"], dims["L"]), generator),
        "offsets": draw_ragged_offsets(dims, generator),
    }
