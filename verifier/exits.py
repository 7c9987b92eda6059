"""Exit codes of the command line, and which one a verdict gives."""

from __future__ import annotations

from enum import IntEnum

from verifier.verdict import FailureCode, FailureMode, Outcome, Verdict


class Exit(IntEnum):
    """What a caller can rely on. 0 means accepted, or that the question could be answered."""

    OK = 0
    BELOW_TARGET = 1
    USAGE = 2
    TRANSIENT = 3
    TIMED_OUT = 4
    NO_ARTIFACT = 10
    UNLOADABLE = 11
    STRUCTURAL = 12
    CORRECTNESS = 13
    POLICY = 14
    BELOW_FLOOR = 15
    INTERNAL = 70
    INTERRUPTED = 130


_BY_MODE = {
    FailureMode.MISSING_FILE: Exit.NO_ARTIFACT,
    FailureMode.UNLOADABLE: Exit.UNLOADABLE,
    FailureMode.NO_TRITON: Exit.STRUCTURAL,
    FailureMode.HIDDEN_DISTRIBUTION: Exit.CORRECTNESS,
    FailureMode.INCORRECT: Exit.CORRECTNESS,
    FailureMode.STALE_OUTPUT: Exit.POLICY,
    FailureMode.PRECISION_LOSS: Exit.POLICY,
    FailureMode.CUDA_GRAPH: Exit.POLICY,
    FailureMode.FOREIGN_BACKEND: Exit.POLICY,
    FailureMode.TIMING_SIDESTEP: Exit.POLICY,
    FailureMode.BELOW_FLOOR: Exit.BELOW_FLOOR,
    FailureMode.BELOW_TARGET: Exit.BELOW_TARGET,
    FailureMode.INFRASTRUCTURE: Exit.TRANSIENT,
}


def find_failure_exit(code: FailureCode) -> Exit:
    """Return the exit code of a failure."""
    return _BY_MODE[code.mode]


def find_exit(verdict: Verdict) -> Exit:
    """Return the exit code of a verdict."""
    if verdict.outcome in (Outcome.PASSED, Outcome.ACCEPTED):
        return Exit.OK
    primary: FailureCode | None = verdict.primary_failure
    return find_failure_exit(primary) if primary is not None else Exit.INTERNAL
