"""Tallies and failures with the fields that a test is about; everything else is usual."""

from __future__ import annotations

from typing import Any

from portal.standings.counts import FailureCount, Tally
from verifier.verdict import FailureMode


def tally(system: int = 1, task: str = "l1-01", **given: Any) -> Tally:
    """Return a tally of three runs, of which `passed` passed and all others were rejected, unless `given` says more."""
    passed = given.get("passed", 0)
    usual: dict[str, Any] = {
        "environment": "h200", "level": task[:2].upper(), "family": "graph", "runs": 3, "targeted": 3, "passed": passed,
        "cleared": passed, "below_target": 0, "rejected": 3 - passed, "rejected_fast": 0, "captured": float(passed),
        "speedups": 0, "mean_log_speedup": None, "clocked": 0, "wall_clock_seconds": 0,
    }  # fmt: skip
    return Tally(system=system, task=task, **usual | given)


def failure(system: int, level: str, mode: FailureMode, runs: int) -> FailureCount:
    """Return a count of failed runs."""
    return FailureCount("h200", system, level, mode, runs)
