"""The words in which pages speak of outcomes and gates."""

from __future__ import annotations

from verifier.verdict import Gate, GateStatus, Outcome

OUTCOME_LABELS = {
    Outcome.PASSED: "Passed",
    Outcome.ACCEPTED: "Accepted",
    Outcome.BELOW_TARGET: "Accepted, below target",
    Outcome.REJECTED: "Rejected",
    Outcome.INFRASTRUCTURE: "Infrastructure fault",
}

OUTCOME_EXPLANATIONS = {
    Outcome.PASSED: "Every gate passed and the certified target was reached.",
    Outcome.ACCEPTED: "Every gate that can be judged in this environment passed. "
    "Speed is not measured there, or no target has been certified there yet, so this is not a pass of the benchmark.",
    Outcome.BELOW_TARGET: "Correct and within the rules, but slower than the certified target.",
    Outcome.REJECTED: "A gate before performance failed, so that no speed counts, whatever the stopwatch says.",
    Outcome.INFRASTRUCTURE: "The fault is on our side. The run is tried again and never counted.",
}

# An accepted run of one environment says why it is not more than that.
NOT_TIMED = "Accepted, not timed here"
NO_TARGET = "Accepted, no target yet"

# The sides that are timed, in the order in which they are shown.
SIDE_LABELS = {"eager": "eager PyTorch", "compiled": "compiled PyTorch", "candidate": "this submission"}

GATE_EXPLANATIONS = {
    Gate.INTAKE: "One UTF-8 file of at most 256 KiB loads, constructs with the reference's arguments, "
    "has the reference's parameters and buffers, and answers a first call.",
    Gate.STRUCTURAL: "A @triton.jit kernel of this file does real work in the graded path: it is launched, "
    "the result changes when what it writes is replaced, and library operators do not do the work instead.",
    Gate.CORRECTNESS: "Outputs match a float64 oracle at every element, on secret seeds over all distributions. "
    "Results are fresh, follow inputs and parameters, and leave both untouched.",
    Gate.POLICY: "The machine code of every kernel that ran keeps the reference precision. "
    "No CUDA graph is captured, no compiler stands in, no other GPU backend is used, nothing is tampered with.",
    Gate.PERFORMANCE: "Faster than the faster of eager and compiled PyTorch, at or above the certified target, "
    "and not faster than the hardware permits.",
}

# Parts of a verification whose own names do not say enough.
PHASE_LABELS = {
    "start": "start of the processes",
    "load": "intake: import",
    "construct": "intake: construction",
    "first_call": "intake: first call",
    "intake": "intake: the rest",
}

# Beside the statuses of a verdict, what a gate shows while a run is judged.
GATE_LABELS = {
    GateStatus.PASSED: "passed",
    GateStatus.FAILED: "failed",
    GateStatus.SKIPPED: "not reached",
    GateStatus.NOT_TIMED: "not timed here",
    "started": "running",
    "waiting": "waiting",
}
