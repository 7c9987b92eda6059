"""DGCNN: a classifier of point clouds whose graph is drawn anew in every layer."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn
from torch.nn import functional

from verifier.inputs import draw_gaussian, draw_integers, draw_uniform

SLOPE = 0.2
EPSILON = 1e-5
# Below every squared distance between different points: K equal points make no radius of zero.
SMALLEST_RADIUS = 1e-12


class StoredNorm(nn.Module):
    """Batch norm by stored statistics, over the last dimension."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        # As after training; some scales are negative.
        self.weight = nn.Parameter(1.0 + 0.5 * torch.randn(channels))
        self.bias = nn.Parameter(0.2 * torch.randn(channels))
        self.register_buffer("mean", 0.2 * torch.randn(channels))
        self.register_buffer("variance", torch.empty(channels).uniform_(0.5, 2.0))

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        return (h - self.mean) * torch.rsqrt(self.variance + EPSILON) * self.weight + self.bias


def measure_distances(points: torch.Tensor) -> torch.Tensor:
    """Return the squared distances, B x N x N, between the rows of `points`, B x N x C."""
    # Distances stay the same, and far fewer digits cancel.
    centred = points - points.mean(dim=1, keepdim=True)
    norms = centred.square().sum(dim=-1)
    distances = norms.unsqueeze(2) + norms.unsqueeze(1) - 2.0 * torch.bmm(centred, centred.mT)
    return distances.clamp(min=0.0)


class EdgeConvolution(nn.Module):
    """y[i] = max over j of w[i, j] * relu(norm(linear(x[j] - x[i], x[i]))), w[i, j] = max(0, 1 - d[i, j] / r[i]).

    d are squared distances in feature space and r[i] is the one to the K-th nearest row, itself included.
    """

    def __init__(self, channels: int, filters: int, neighbours: int) -> None:
        super().__init__()
        self.neighbours = neighbours
        self.linear = nn.Linear(2 * channels, filters, bias=False)
        nn.init.kaiming_normal_(self.linear.weight)
        self.norm = StoredNorm(filters)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        nearest = measure_distances(x).topk(self.neighbours, dim=-1, largest=False, sorted=True)
        radius = nearest.values[..., -1:].clamp(min=SMALLEST_RADIUS)
        weight = (1.0 - nearest.values / radius).clamp(min=0.0)
        cloud = torch.arange(len(x), device=x.device).view(-1, 1, 1)
        neighbour = x[cloud, nearest.indices]
        centre = x.unsqueeze(2).expand_as(neighbour)
        edge = self.norm(self.linear(torch.cat([neighbour - centre, centre], dim=-1)))
        return (weight.unsqueeze(-1) * functional.relu(edge)).amax(dim=2)


class Layer(nn.Module):
    """leaky_relu(norm(linear(h)))."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs, bias=False)
        nn.init.kaiming_normal_(self.linear.weight)
        self.norm = StoredNorm(outputs)

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        return functional.leaky_relu(self.norm(self.linear(h)), SLOPE)


class Model(nn.Module):
    """logits = head(maximum and mean over the points of embed(all edge convolutions side by side))."""

    def __init__(self, width: int, neighbours: int, classes: int) -> None:
        super().__init__()
        widths = [3, width, width, 2 * width, 4 * width]
        self.edges = nn.ModuleList(
            EdgeConvolution(channels, filters, neighbours)
            for channels, filters in zip(widths[:-1], widths[1:], strict=True)
        )
        self.embed = Layer(8 * width, 16 * width)
        self.hidden1 = Layer(32 * width, 8 * width)
        self.hidden2 = Layer(8 * width, 4 * width)
        self.classify = nn.Linear(4 * width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = x.transpose(1, 2).contiguous()
        features = []
        for edge in self.edges:
            h = edge(h)
            features.append(h)
        h = self.embed(torch.cat(features, dim=-1))
        pooled = torch.cat([h.amax(dim=1), h.mean(dim=1)], dim=-1)
        return self.classify(self.hidden2(self.hidden1(pooled)))


def get_init_inputs(dims: Mapping[str, int]) -> list[object]:
    """Return the arguments of the constructor: width of the first layer, neighbours and classes."""
    return [dims["W"], dims["K"], dims["C"]]


def generate(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return seeded inputs. Raises ValueError for another distribution than surface."""
    if distribution != "surface":
        raise ValueError(f"unknown distribution {distribution!r}; known: surface")
    batch, points = dims["B"], dims["N"]
    # Each cloud lies on an ellipsoid or on a paraboloid, which may be a saddle.
    direction = functional.normalize(draw_gaussian((batch, 3, points), generator), dim=1)
    axes = draw_uniform((batch, 3, 1), 0.4, 1.0, generator)
    ellipsoid = direction * axes
    flat = draw_uniform((batch, 2, points), -1.0, 1.0, generator)
    height = (flat.square() * draw_uniform((batch, 2, 1), -0.5, 0.5, generator)).sum(dim=1, keepdim=True)
    paraboloid = torch.cat([flat, height], dim=1)
    kind = draw_integers(0, 2, batch, generator).view(batch, 1, 1)
    return {"x": torch.where(kind == 0, ellipsoid, paraboloid)}
