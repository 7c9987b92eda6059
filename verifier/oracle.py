"""Compares outputs with the oracle, element by element, in units of the error budget. In bounded memory."""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from verifier.task import Tolerance

# Elements that are compared at a time: float64 temporaries of a few hundred MB at most.
CHUNK = 1 << 24
# Secret for this process, so that no output can be made to have another's fingerprint.
_SALT = secrets.randbits(61) | 1
_MIX = 0x2545F4914F6CDD1D


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
    """Compare an output of any dtype with the oracle of the same shape. Raises ValueError for another shape.

    Every element counts. NaN and infinities must stand where the oracle has them. -0.0 equals 0.0. Integers and
    truth values are compared exactly whatever the rule.
    """
    if output.shape != oracle.shape:
        raise ValueError(f"an output of shape {tuple(output.shape)} cannot be compared with {tuple(oracle.shape)}")
    if not output.numel():
        return Comparison(0, 0, 0, 0.0, 0.0, ())
    # Only the root mean square of a row needs the row in one piece.
    width = output.shape[-1] if output.ndim and tolerance.rms else 1
    measured, expected = output.reshape(-1, width), oracle.reshape(-1, width)
    step = max(1, CHUNK // width)
    parts = [
        compare_rows(measured[start : start + step], expected[start : start + step], tolerance, start * width)
        for start in range(0, len(measured), step)
    ]
    merged = merge(parts)
    place = tuple(int(index) for index in np.unravel_index(merged.worst_index[0], tuple(output.shape)))
    return Comparison(
        merged.elements, merged.wrong, merged.nonfinite_mismatches, merged.largest_error, merged.budget_ratio, place
    )


def compute_budget(oracle: torch.Tensor, tolerance: Tolerance) -> torch.Tensor:
    """Return the error that each element of a float64 oracle may have; infinite and NaN elements count as zero."""
    size = torch.nan_to_num(oracle, nan=0.0, posinf=0.0, neginf=0.0).abs()
    budget = tolerance.atol + tolerance.rtol * size
    if tolerance.rms:
        budget = budget + tolerance.rms * size.square().mean(dim=-1, keepdim=True).sqrt()
    return budget


def compare_rows(output: torch.Tensor, oracle: torch.Tensor, tolerance: Tolerance, start: int) -> Comparison:
    """Compare whole rows of the last dimension; `start` is the place of their first element in the whole."""
    exact = tolerance.rule == "exact" or not output.is_floating_point()
    measured, expected = output.double(), oracle.double()
    finite = torch.isfinite(expected)
    same_kind = (torch.isnan(measured) == torch.isnan(expected)) & (torch.isfinite(measured) == finite)
    same_kind &= finite | torch.isnan(expected) | (measured == expected)
    error = torch.where(finite & torch.isfinite(measured), (measured - expected).abs(), torch.zeros_like(expected))
    allowed = torch.zeros_like(error) if exact else compute_budget(expected, tolerance)
    ratio = torch.where(error > 0, error / allowed, torch.zeros_like(error))
    ratio = torch.where(same_kind, ratio, torch.full_like(error, math.inf))
    return Comparison(
        elements=ratio.numel(),
        wrong=int((~(ratio <= 1.0)).sum()),
        nonfinite_mismatches=int((~same_kind).sum()),
        largest_error=float(error.max()),
        budget_ratio=float(ratio.max()),
        worst_index=(start + int(ratio.argmax()),),
    )


def merge(comparisons: list[Comparison]) -> Comparison:
    """Return one comparison for several, with the place of the worst."""
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


def iterate_words(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yield a tensor's bytes as pieces of 64-bit integers, one for each 32-bit word; a rest is filled with zeros."""
    flat = tensor.contiguous().reshape(-1).view(torch.uint8)
    whole = flat.numel() // 4 * 4
    words = flat[:whole].view(torch.int32)
    for start in range(0, words.numel(), CHUNK):
        yield words[start : start + CHUNK].long()
    if flat.numel() > whole:
        yield torch.nn.functional.pad(flat[whole:], (0, 4 - flat.numel() + whole)).view(torch.int32).long()


def fingerprint(tensors: list[torch.Tensor]) -> tuple[int, ...]:
    """Return numbers that two lists of tensors share when they hold the same bytes, and else practically never."""
    numbers: list[int] = []
    for tensor in tensors:
        total = 0
        for index, words in enumerate(iterate_words(tensor)):
            places = torch.arange(1, words.numel() + 1, device=words.device) * _MIX + index
            mixed = (words ^ places) * _SALT
            mixed ^= mixed >> 29
            total += int((mixed * _MIX).sum())
        numbers += [tensor.numel(), total & 0xFFFFFFFFFFFFFFFF]
    return tuple(numbers)
