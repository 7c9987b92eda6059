"""Compares outputs with the oracle, element by element, in units of the error budget."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from verifier.task import Tolerance


@dataclass(frozen=True)
class Comparison:
    """How far an output is from what it should be. A budget ratio of at most 1 everywhere passes."""

    elements: int
    wrong: int
    nonfinite_mismatches: int
    largest_error: float
    budget_ratio: float
    worst_index: tuple[int, ...]

    @property
    def passed(self) -> bool:
        return self.wrong == 0


def compare(output: torch.Tensor, oracle: torch.Tensor, tolerance: Tolerance) -> Comparison:
    """Compare an output of any dtype with the oracle of the same shape.

    Every element counts. NaN and infinities must stand where the oracle has them. -0.0 equals 0.0.
    """
    measured, expected = output.double(), oracle.double()
    finite = torch.isfinite(expected)
    same_kind = (torch.isnan(measured) == torch.isnan(expected)) & (torch.isfinite(measured) == finite)
    same_kind &= finite | torch.isnan(expected) | (measured == expected)
    error = torch.where(finite & torch.isfinite(measured), (measured - expected).abs(), torch.zeros_like(expected))
    budget = tolerance.atol + tolerance.rtol * torch.where(finite, expected, torch.zeros_like(expected)).abs()
    ratio = (
        torch.where(error > 0, error / budget, torch.zeros_like(error))
        if tolerance.rule == "allclose"
        else torch.where(error > 0, math.inf, 0.0)
    )
    ratio = torch.where(same_kind, ratio, torch.full_like(error, math.inf))
    wrong = ~(ratio <= 1.0)
    if not ratio.numel():
        return Comparison(0, 0, 0, 0.0, 0.0, ())
    worst = int(ratio.argmax())
    return Comparison(
        elements=ratio.numel(),
        wrong=int(wrong.sum()),
        nonfinite_mismatches=int((~same_kind).sum()),
        largest_error=float(error.max()),
        budget_ratio=float(ratio.max()),
        worst_index=tuple(int(index) for index in np.unravel_index(worst, tuple(ratio.shape))),
    )


def merge(comparisons: list[Comparison]) -> Comparison:
    """Return one comparison for several outputs, with the place of the worst."""
    worst = max(comparisons, key=lambda item: item.budget_ratio)
    return Comparison(
        elements=sum(item.elements for item in comparisons),
        wrong=sum(item.wrong for item in comparisons),
        nonfinite_mismatches=sum(item.nonfinite_mismatches for item in comparisons),
        largest_error=max(item.largest_error for item in comparisons),
        budget_ratio=worst.budget_ratio,
        worst_index=worst.worst_index,
    )


def compare_all(outputs: list[torch.Tensor], oracle: tuple[torch.Tensor, ...], tolerance: Tolerance) -> Comparison:
    """Compare every output with its oracle."""
    return merge([compare(output, expected, tolerance) for output, expected in zip(outputs, oracle, strict=True)])


def has_same_bits(left: list[torch.Tensor], right: list[torch.Tensor]) -> bool:
    """Return whether two lists of outputs hold the same bytes."""
    return len(left) == len(right) and all(
        a.shape == b.shape
        and a.dtype == b.dtype
        and torch.equal(a.reshape(-1).view(torch.uint8), b.reshape(-1).view(torch.uint8))
        for a, b in zip(left, right, strict=True)
    )
