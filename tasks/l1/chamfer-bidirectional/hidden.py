"""Bidirectional squared nearest-neighbour distances of two point sets: hidden inputs and the float64 oracle."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from verifier.inputs import draw_gaussian, draw_integers, draw_permutation

FAR = 1e3
CLUSTERS = 16
CLUSTER_SPREAD = 1e-3
ROWS_AT_ONCE = 512


def generate(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return seeded inputs. Raises ValueError for an unknown distribution."""
    batch, rows, columns = dims["B"], dims["N"], dims["M"]
    x = draw_gaussian((batch, rows, 3), generator)
    y = draw_gaussian((batch, columns, 3), generator)
    match distribution:
        case "uniform-surface":
            x, y = (torch.nn.functional.normalize(points, dim=-1) for points in (x, y))
        case "far-offset":
            x, y = x + FAR, y + FAR
        case "subset":
            copies = draw_permutation(columns, generator)[: columns // 2]
            y[:, copies] = x[:, draw_integers(0, rows, len(copies), generator)]
        case "clustered":
            centres = draw_gaussian((batch, CLUSTERS, 3), generator)
            x = CLUSTER_SPREAD * x + centres[:, draw_integers(0, CLUSTERS, rows, generator)]
            y = CLUSTER_SPREAD * y + centres[:, draw_integers(0, CLUSTERS, columns, generator)]
        case _:
            raise ValueError(f"unknown distribution {distribution!r}")
    return {"x": x, "y": y}


def compute_oracle(
    inputs: Mapping[str, torch.Tensor], state: Mapping[str, torch.Tensor], dims: Mapping[str, int]
) -> tuple[torch.Tensor, ...]:
    """Return both minima in float64, a block of rows and one coordinate at a time."""
    x, y = inputs["x"].double(), inputs["y"].double()
    row_minima, column_minima = [], y.new_full(y.shape[:2], torch.inf)
    for rows in x.split(ROWS_AT_ONCE, dim=1):
        distances = rows.new_zeros(*rows.shape[:2], y.shape[1])
        for axis in range(3):
            distances += (rows[:, :, None, axis] - y[:, None, :, axis]).square_()
        row_minima.append(distances.amin(dim=2))
        column_minima = torch.minimum(column_minima, distances.amin(dim=1))
    return torch.cat(row_minima, dim=1), column_minima
