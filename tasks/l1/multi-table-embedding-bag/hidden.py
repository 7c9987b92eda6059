"""26 weighted embedding bags: hidden inputs and the float64 oracle."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch.nn import functional

from verifier.inputs import draw_gaussian, draw_integers, draw_log_magnitude


def _cut_evenly(dims: Mapping[str, int], generator: torch.Generator) -> torch.Tensor:
    """Return (F, B + 1) offsets of bags whose sizes differ by at most two."""
    tables, bags, lookups = dims["F"], dims["B"], dims["L"]
    offsets = (torch.arange(bags + 1, device=generator.device) * lookups // bags).repeat(tables, 1)
    offsets[:, 1:-1] += draw_integers(0, 2, tables * (bags - 1), generator).view(tables, -1)
    return offsets


def _cut_at_random(
    dims: Mapping[str, int], filled: torch.Tensor, generator: torch.Generator, start: int = 0
) -> torch.Tensor:
    """Return (F, B + 1) offsets that cut the look-ups after `start` among the `filled` (F, B) bags of each table.

    The look-ups before `start` go to the first filled bag.
    """
    tables, lookups = dims["F"], dims["L"]
    pieces = int(filled[0].sum())
    cuts = draw_integers(start, lookups + 1, tables * (pieces - 1), generator).view(tables, -1).sort(dim=-1).values
    ends = functional.pad(functional.pad(cuts, (1, 0)), (0, 1), value=lookups)
    return ends.gather(1, functional.pad(filled.long().cumsum(dim=-1), (1, 0)))


def generate(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return seeded inputs. Raises ValueError for an unknown distribution."""
    tables, bags, rows, lookups = dims["F"], dims["B"], dims["V"], dims["L"]
    index = draw_integers(0, rows, tables * lookups, generator).view(tables, lookups)
    weight = draw_gaussian((tables, lookups), generator)
    filled = torch.ones(tables, bags, dtype=torch.bool, device=generator.device)
    match distribution:
        case "even-bags":
            offsets = _cut_evenly(dims, generator)
        case "half-empty":
            order = draw_gaussian((tables, bags), generator).argsort(dim=-1)
            offsets = _cut_at_random(dims, order < bags // 2, generator)
        case "hot-row":
            index = index[:, :1].repeat(1, lookups)
            offsets = _cut_at_random(dims, filled, generator, start=lookups // 8)
        case "signed-log-magnitude":
            weight = draw_log_magnitude((tables, lookups), generator)
            offsets = _cut_at_random(dims, filled, generator)
        case _:
            raise ValueError(f"unknown distribution {distribution!r}")
    return {"index": index, "weight": weight, "offsets": offsets}


def compute_oracle(
    inputs: Mapping[str, torch.Tensor], state: Mapping[str, torch.Tensor], dims: Mapping[str, int]
) -> tuple[torch.Tensor, ...]:
    """Return the pooled rows in float64: every look-up added to the bag that it belongs to, table by table."""
    pooled = []
    for table, index, weight, offsets in zip(
        state["tables"], inputs["index"], inputs["weight"], inputs["offsets"], strict=True
    ):
        place = torch.arange(dims["L"], device=index.device)
        bag = torch.searchsorted(offsets[1:].contiguous(), place, right=True)
        terms = weight.double().unsqueeze(-1) * table[index].double()
        pooled.append(terms.new_zeros(dims["B"], dims["D"]).index_add_(0, bag, terms))
    return (torch.cat(pooled, dim=-1),)
