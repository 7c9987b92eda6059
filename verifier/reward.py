"""Reward and capture of a verdict, version 1. Pure functions on plain numbers.

The reward orders outcomes first and speed second: no measured speed counts unless every gate before
performance passed, and a breach of integrity is never worth more than doing nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from verifier.verdict import FailureCode

REWARD_VERSION = 1

_UNLOADABLE, _STRUCTURAL, _INCORRECT = 0.02, 0.04, 0.06
_HONEST_STRUCTURAL = {FailureCode.STRUCT_NO_TRITON, FailureCode.STRUCT_LIBRARY_OFFLOAD}


def compute_capture(speedup: float, target: float) -> float:
    """Return the share of the target's log headroom that `speedup` took, from 0 to 1.

    Both are ratios over the baseline; `target` must be above 1. A dead band of at most 2 % keeps "equal
    to the baseline" worth nothing. Raises ValueError.
    """
    if not (target > 1.0 and speedup > 0.0):
        raise ValueError("a capture needs a target above 1 and a positive speedup")
    headroom = math.log(target)
    dead_band = min(0.02, headroom / 4)
    return min(1.0, max(0.0, (math.log(speedup) - dead_band) / (headroom - dead_band)))


def compute_reward(failures: Sequence[FailureCode], speedup: float | None, target: float | None) -> float | None:
    """Return the training reward in [0, 1), or None when this environment cannot decide it.

    `failures` has the primary code first; performance codes alone leave a run accepted.
    """
    gates = [code for code in failures if not code.startswith("PERF_") or code is FailureCode.PERF_BELOW_FLOOR]
    if gates:
        return None if gates[0].is_infrastructure else reward_failure(gates)
    if speedup is None or target is None:
        return None
    if speedup < 1.0:
        return 0.10 + 0.10 * speedup
    if speedup >= target and not failures:
        return 0.90 + 0.10 * (1.0 - target / speedup)
    return 0.20 + 0.60 * compute_capture(speedup, target)


def reward_failure(codes: Sequence[FailureCode]) -> float:
    """Return the reward of a rejected run: the lowest that any of its codes gives."""
    return min(reward_code(code) for code in codes)


def reward_code(code: FailureCode) -> float:
    if code in (FailureCode.ART_MISSING_FILE, FailureCode.ART_BAD_BUNDLE):
        return 0.0
    if code.startswith("ART_"):
        return _UNLOADABLE
    if code in _HONEST_STRUCTURAL:
        return _STRUCTURAL
    if code.startswith("CORR_"):
        return _INCORRECT
    return 0.0
