"""Clebsch-Gordan tensor product of features with spherical harmonics, weighted by path, and an equivariant gate."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from math import factorial

import torch
from torch import nn
from torch.nn import functional

from verifier.inputs import draw_gaussian

LARGEST_DEGREE = 2
# Degrees of features, harmonics and result, by the triangle inequality: 15 paths.
PATHS = tuple(
    (first, second, third)
    for first, second, third in itertools.product(range(LARGEST_DEGREE + 1), repeat=3)
    if abs(first - second) <= third <= first + second
)
# Degree l takes the 2 l + 1 places from l^2 on.
PLACES = tuple(slice(degree**2, (degree + 1) ** 2) for degree in range(LARGEST_DEGREE + 1))
SPREAD = 0.1


def compute_clebsch_gordan(l1: int, m1: int, l2: int, m2: int, l3: int, m3: int) -> float:
    """Return <l1 m1 l2 m2 | l3 m3> by Racah's formula (Edmonds, "Angular Momentum in Quantum Mechanics", 3.6.11)."""
    if m1 + m2 != m3:
        return 0.0
    triangle = factorial(l1 + l2 - l3) * factorial(l1 - l2 + l3) * factorial(l2 - l1 + l3) / factorial(l1 + l2 + l3 + 1)
    moments = math.prod(
        factorial(degree + sign * m) for degree, m in ((l1, m1), (l2, m2), (l3, m3)) for sign in (1, -1)
    )
    total = 0.0
    for k in range(l1 + l2 - l3 + 1):
        rest = (l1 + l2 - l3 - k, l1 - m1 - k, l2 + m2 - k, l3 - l2 + m1 + k, l3 - l1 - m2 + k)
        if min(rest) >= 0:
            total += (-1) ** k / (factorial(k) * math.prod(factorial(item) for item in rest))
    return math.sqrt((2 * l3 + 1) * triangle * moments) * total


def build_real_basis(degree: int) -> torch.Tensor:
    """Return the real harmonics of a degree as rows of coefficients of the complex ones, complex128."""
    basis = torch.zeros(2 * degree + 1, 2 * degree + 1, dtype=torch.complex128)
    basis[degree, degree] = 1.0
    for m in range(1, degree + 1):
        basis[degree + m, degree - m], basis[degree + m, degree + m] = math.sqrt(0.5), (-1) ** m * math.sqrt(0.5)
        basis[degree - m, degree - m], basis[degree - m, degree + m] = (
            1j * math.sqrt(0.5),
            -1j * (-1) ** m * math.sqrt(0.5),
        )
    return basis


def compute_coupling(first: int, second: int, third: int) -> torch.Tensor:
    """Return the Clebsch-Gordan coefficients of one path in the basis of real harmonics, float64."""
    coupling = torch.zeros(2 * first + 1, 2 * second + 1, 2 * third + 1, dtype=torch.complex128)
    for m1, m2 in itertools.product(range(-first, first + 1), range(-second, second + 1)):
        if abs(m1 + m2) <= third:
            value = compute_clebsch_gordan(first, m1, second, m2, third, m1 + m2)
            coupling[first + m1, second + m2, third + m1 + m2] = value
    bases = build_real_basis(first).conj(), build_real_basis(second).conj(), build_real_basis(third)
    real = torch.einsum("ijk,ai,bj,ck->abc", coupling, *bases)
    # Either real or, where the degrees have an odd sum, imaginary.
    real = real.real + real.imag
    return torch.where(real.abs() > 1e-9, real, 0.0)  # noqa: PLR2004 - rounding


class Model(nn.Module):
    """t = sum over the paths of w * (x coupled with Y); scalars become silu(t), degree l becomes t * sigmoid(gate)."""

    def __init__(self) -> None:
        super().__init__()
        coupling = torch.zeros(len(PATHS), 5, 5, 5)
        for path, (first, second, third) in enumerate(PATHS):
            coupling[path, : 2 * first + 1, : 2 * second + 1, : 2 * third + 1] = compute_coupling(first, second, third)
        # As after training: where a coefficient is not zero by symmetry, it has moved a little.
        self.register_buffer("coupling", coupling * (1.0 + SPREAD * torch.randn_like(coupling)))

    def forward(self, x: torch.Tensor, y: torch.Tensor, w: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
        results = [torch.zeros_like(x[..., places]) for places in PLACES]
        for path, (first, second, third) in enumerate(PATHS):
            coupling = self.coupling[path, : 2 * first + 1, : 2 * second + 1, : 2 * third + 1]
            mixed = torch.einsum("eum,en,mnk->euk", x[..., PLACES[first]], y[..., PLACES[second]], coupling)
            results[third] = results[third] + w[:, path].unsqueeze(-1) * mixed
        scalars, vectors, tensors = results
        gates = torch.sigmoid(gate)
        return torch.cat([functional.silu(scalars), vectors * gates[..., :1], tensors * gates[..., 1:]], dim=-1)


def compute_harmonics(direction: torch.Tensor) -> torch.Tensor:
    """Return the nine real spherical harmonics up to degree 2 of unit vectors, in units in which degree 0 is 1."""
    x, y, z = direction.unbind(-1)
    one = torch.ones_like(x)
    vectors = [math.sqrt(3.0) * value for value in (y, z, x)]
    mixed = [math.sqrt(15.0) * value for value in (x * y, y * z, x * z, (x * x - y * y) / 2)]
    return torch.stack([one, *vectors, *mixed[:2], math.sqrt(5.0) * (1.5 * z * z - 0.5), *mixed[2:]], dim=-1)


def get_init_inputs(dims: Mapping[str, int]) -> list[object]:
    """Return the arguments of the constructor: none."""
    return []


def generate(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return seeded inputs. Raises ValueError for another distribution than gauss."""
    if distribution != "gauss":
        raise ValueError(f"unknown distribution {distribution!r}; known: gauss")
    edges, channels = dims["E"], dims["U"]
    return {
        "x": draw_gaussian((edges, channels, 9), generator),
        "y": compute_harmonics(functional.normalize(draw_gaussian((edges, 3), generator), dim=-1)),
        "w": draw_gaussian((edges, len(PATHS), channels), generator),
        "gate": draw_gaussian((edges, channels, 2), generator),
    }
