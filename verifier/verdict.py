"""The contract between the verifier and everyone who reads its results.

A `Verdict` is plain data: it is printed by `kq verify --json`, stored by the portal and published as
JSON Schema (`kq schema verdict`). Nothing in it comes unchecked from a submission: texts that do
(`Evidence.output_tail`, exception messages) are capped and must be escaped wherever they are shown.
"""

from __future__ import annotations

import hashlib
import json
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

VERDICT_SCHEMA = "kernelquest.verdict/1"

MESSAGE_CAP = 2_048
OUTPUT_CAP = 65_536


class Gate(StrEnum):
    """The five gates, in the order in which they are shown."""

    INTAKE = "intake"
    STRUCTURAL = "structural"
    CORRECTNESS = "correctness"
    POLICY = "policy"
    PERFORMANCE = "performance"


class GateStatus(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    NOT_TIMED = "not_timed"


class Outcome(StrEnum):
    """What became of a run.

    `accepted` means that every gate that can be judged in this environment passed and that speed is
    not measured there; it is not a pass of the benchmark.
    """

    PASSED = "passed"
    ACCEPTED = "accepted"
    BELOW_TARGET = "below_target"
    REJECTED = "rejected"
    INFRASTRUCTURE = "infrastructure"


class FailureMode(StrEnum):
    """The coarse groups in which the benchmark reports failures."""

    MISSING_FILE = "missing_file"
    UNLOADABLE = "unloadable"
    STALE_OUTPUT = "stale_output"
    HIDDEN_DISTRIBUTION = "hidden_distribution"
    INCORRECT = "incorrect"
    PRECISION_LOSS = "precision_loss"
    NO_TRITON = "no_triton"
    CUDA_GRAPH = "cuda_graph"
    FOREIGN_BACKEND = "foreign_backend"
    TIMING_SIDESTEP = "timing_sidestep"
    BELOW_FLOOR = "below_floor"
    BELOW_TARGET = "below_target"
    INFRASTRUCTURE = "infrastructure"

    @property
    def label(self) -> str:
        """The words shown to a reader."""
        return _MODE_LABELS[self]


_MODE_LABELS = {
    FailureMode.MISSING_FILE: "missing file",
    FailureMode.UNLOADABLE: "unloadable solution",
    FailureMode.STALE_OUTPUT: "stale or constant output",
    FailureMode.HIDDEN_DISTRIBUTION: "fails a hidden distribution",
    FailureMode.INCORRECT: "incorrect",
    FailureMode.PRECISION_LOSS: "precision loss",
    FailureMode.NO_TRITON: "no Triton kernel in the graded path",
    FailureMode.CUDA_GRAPH: "captured CUDA graph",
    FailureMode.FOREIGN_BACKEND: "another GPU backend",
    FailureMode.TIMING_SIDESTEP: "timing sidestep or tampering",
    FailureMode.BELOW_FLOOR: "below the physical floor",
    FailureMode.BELOW_TARGET: "correct but below target",
    FailureMode.INFRASTRUCTURE: "infrastructure fault",
}


class FailureCode(StrEnum):
    """Why a run failed, as precisely as the evidence allows."""

    ART_MISSING_FILE = "ART_MISSING_FILE"
    ART_BAD_BUNDLE = "ART_BAD_BUNDLE"
    ART_SYNTAX = "ART_SYNTAX"
    ART_IMPORT_ERROR = "ART_IMPORT_ERROR"
    ART_NO_ENTRYPOINT = "ART_NO_ENTRYPOINT"
    ART_INIT_ERROR = "ART_INIT_ERROR"
    ART_STATE_MISMATCH = "ART_STATE_MISMATCH"
    ART_COMPILE_ERROR = "ART_COMPILE_ERROR"
    ART_COMPILE_TIMEOUT = "ART_COMPILE_TIMEOUT"
    ART_RUNTIME_ERROR = "ART_RUNTIME_ERROR"
    ART_HANG = "ART_HANG"
    ART_OOM = "ART_OOM"
    TAMPER_HARNESS = "TAMPER_HARNESS"
    STALE_ALIAS_REPLAY = "STALE_ALIAS_REPLAY"
    STALE_STORAGE_REUSED = "STALE_STORAGE_REUSED"
    STALE_CONSTANT = "STALE_CONSTANT"
    STALE_UNWRITTEN = "STALE_UNWRITTEN"
    STALE_TIMED_OUTPUT = "STALE_TIMED_OUTPUT"
    STRUCT_NO_TRITON = "STRUCT_NO_TRITON"
    STRUCT_DECOY = "STRUCT_DECOY"
    STRUCT_LIBRARY_OFFLOAD = "STRUCT_LIBRARY_OFFLOAD"
    STRUCT_COMPILE_FALLBACK = "STRUCT_COMPILE_FALLBACK"
    GRAPH_CAPTURE = "GRAPH_CAPTURE"
    BACKEND_FOREIGN = "BACKEND_FOREIGN"
    PREC_TF32 = "PREC_TF32"
    PREC_DOWNCAST = "PREC_DOWNCAST"
    PREC_EMULATION = "PREC_EMULATION"
    PREC_FLAG_OPTIN = "PREC_FLAG_OPTIN"
    CORR_HIDDEN_DIST = "CORR_HIDDEN_DIST"
    CORR_VALUE = "CORR_VALUE"
    CORR_SHAPE_DTYPE = "CORR_SHAPE_DTYPE"
    CORR_NONFINITE = "CORR_NONFINITE"
    CORR_INPUT_MUTATED = "CORR_INPUT_MUTATED"
    CORR_PARAM_IGNORED = "CORR_PARAM_IGNORED"
    CORR_NONDETERMINISTIC = "CORR_NONDETERMINISTIC"
    TIMING_SIDESTEP = "TIMING_SIDESTEP"
    PERF_BELOW_FLOOR = "PERF_BELOW_FLOOR"
    PERF_SLOWER_THAN_BASELINE = "PERF_SLOWER_THAN_BASELINE"
    PERF_BELOW_TARGET = "PERF_BELOW_TARGET"
    INFRA_GPU_FAULT = "INFRA_GPU_FAULT"
    INFRA_UNSTABLE_TIMING = "INFRA_UNSTABLE_TIMING"
    INFRA_EVIDENCE_LOST = "INFRA_EVIDENCE_LOST"
    INFRA_WORKER_LOST = "INFRA_WORKER_LOST"

    @property
    def mode(self) -> FailureMode:
        """The coarse group of this code."""
        return FAILURES[self].mode

    @property
    def explanation(self) -> str:
        """One sentence for the submitter: what was seen and what to do."""
        return FAILURES[self].explanation

    @property
    def is_infrastructure(self) -> bool:
        """True when the fault is never the submitter's."""
        return self.mode is FailureMode.INFRASTRUCTURE


class Failure(NamedTuple):
    mode: FailureMode
    explanation: str


_M = FailureMode
_C = FailureCode
FAILURES: dict[FailureCode, Failure] = {
    _C.ART_MISSING_FILE: Failure(
        _M.MISSING_FILE, "No submission file was found. Leave a solution.py at the expected path."
    ),
    _C.ART_BAD_BUNDLE: Failure(
        _M.MISSING_FILE, "The submission is not one regular UTF-8 text file of at most 256 KiB without NUL bytes."
    ),
    _C.ART_SYNTAX: Failure(_M.UNLOADABLE, "The file is not valid Python."),
    _C.ART_IMPORT_ERROR: Failure(
        _M.UNLOADABLE, "The file raised an exception, or ended its process, while it was imported."
    ),
    _C.ART_NO_ENTRYPOINT: Failure(_M.UNLOADABLE, "The file defines no class ModelNew that is a torch.nn.Module."),
    _C.ART_INIT_ERROR: Failure(_M.UNLOADABLE, "ModelNew could not be constructed with the reference's arguments."),
    _C.ART_STATE_MISMATCH: Failure(
        _M.UNLOADABLE, "The parameters and buffers of ModelNew differ from the reference's in name, shape or dtype."
    ),
    _C.ART_COMPILE_ERROR: Failure(_M.UNLOADABLE, "A Triton kernel did not compile."),
    _C.ART_COMPILE_TIMEOUT: Failure(_M.UNLOADABLE, "Compiling the kernels took longer than the compile budget."),
    _C.ART_RUNTIME_ERROR: Failure(_M.UNLOADABLE, "The forward call raised an exception or ended its process."),
    _C.ART_HANG: Failure(_M.UNLOADABLE, "A phase did not end within its time limit."),
    _C.ART_OOM: Failure(_M.UNLOADABLE, "The solution needed more memory than the limit."),
    _C.TAMPER_HARNESS: Failure(
        _M.TIMING_SIDESTEP, "The solution spoke out of turn on the verifier's channels or interfered with the harness."
    ),
    _C.STALE_ALIAS_REPLAY: Failure(
        _M.STALE_OUTPUT, "New values at the same address gave the old result: the output was remembered, not computed."
    ),
    _C.STALE_STORAGE_REUSED: Failure(
        _M.STALE_OUTPUT,
        "A later call overwrote or returned the storage of an earlier result. Return fresh storage from every call.",
    ),
    _C.STALE_CONSTANT: Failure(_M.STALE_OUTPUT, "The output does not follow the input."),
    _C.STALE_UNWRITTEN: Failure(
        _M.STALE_OUTPUT, "Part of the output was never written: it shows the poison that fills fresh memory."
    ),
    _C.STALE_TIMED_OUTPUT: Failure(
        _M.STALE_OUTPUT, "An output of a timed call is wrong although the checks passed before."
    ),
    _C.STRUCT_NO_TRITON: Failure(_M.NO_TRITON, "No @triton.jit kernel of this file ran in the graded call."),
    _C.STRUCT_DECOY: Failure(
        _M.NO_TRITON, "The kernels that ran do not matter: replacing what they write leaves the result as it was."
    ),
    _C.STRUCT_LIBRARY_OFFLOAD: Failure(
        _M.NO_TRITON, "Library operators or the host did the work that the task asks of a Triton kernel."
    ),
    _C.STRUCT_COMPILE_FALLBACK: Failure(_M.NO_TRITON, "torch.compile or its generated kernels ran in the graded path."),
    _C.GRAPH_CAPTURE: Failure(_M.CUDA_GRAPH, "The solution captured or replayed a CUDA graph."),
    _C.BACKEND_FOREIGN: Failure(
        _M.FOREIGN_BACKEND, "Work reached the GPU by something other than Triton and PyTorch's own operators."
    ),
    _C.PREC_TF32: Failure(
        _M.PRECISION_LOSS,
        "An executed kernel multiplies in TF32. On fp32 tasks use tl.dot(..., input_precision='ieee').",
    ),
    _C.PREC_DOWNCAST: Failure(_M.PRECISION_LOSS, "Values were narrowed below the task's reference precision."),
    _C.PREC_EMULATION: Failure(_M.PRECISION_LOSS, "fp32 was emulated by several lower-precision tensor-core products."),
    _C.PREC_FLAG_OPTIN: Failure(_M.PRECISION_LOSS, "A global switch that permits reduced precision was turned on."),
    _C.CORR_HIDDEN_DIST: Failure(_M.HIDDEN_DISTRIBUTION, "The visible distribution passes and a hidden one does not."),
    _C.CORR_VALUE: Failure(_M.INCORRECT, "The output is further from the float64 oracle than the error budget allows."),
    _C.CORR_SHAPE_DTYPE: Failure(_M.INCORRECT, "The output's structure, shape or dtype is not the reference's."),
    _C.CORR_NONFINITE: Failure(
        _M.INCORRECT, "NaN or infinity stands where the oracle has another value, or the reverse."
    ),
    _C.CORR_INPUT_MUTATED: Failure(_M.INCORRECT, "The call changed its inputs or parameters."),
    _C.CORR_PARAM_IGNORED: Failure(_M.INCORRECT, "The output does not follow a parameter."),
    _C.CORR_NONDETERMINISTIC: Failure(
        _M.INCORRECT, "The same input gave results that differ by more than the error budget."
    ),
    _C.TIMING_SIDESTEP: Failure(
        _M.TIMING_SIDESTEP, "The two clocks disagree, or work happened outside the timed window."
    ),
    _C.PERF_BELOW_FLOOR: Failure(
        _M.BELOW_FLOOR, "The measured time is shorter than the hardware needs to move the bytes or do the arithmetic."
    ),
    _C.PERF_SLOWER_THAN_BASELINE: Failure(
        _M.BELOW_TARGET, "Correct, and not faster than the faster of eager and compiled PyTorch."
    ),
    _C.PERF_BELOW_TARGET: Failure(
        _M.BELOW_TARGET, "Correct and faster than the baseline, but below the certified target."
    ),
    _C.INFRA_GPU_FAULT: Failure(
        _M.INFRASTRUCTURE, "The GPU or its host failed. The run is tried again and never counted against the submitter."
    ),
    _C.INFRA_UNSTABLE_TIMING: Failure(_M.INFRASTRUCTURE, "Timing was too unsteady to decide. The run is tried again."),
    _C.INFRA_EVIDENCE_LOST: Failure(
        _M.INFRASTRUCTURE, "Evidence that a gate needs was lost on our side. The run is tried again."
    ),
    _C.INFRA_WORKER_LOST: Failure(_M.INFRASTRUCTURE, "The worker failed before a verdict. The run is tried again."),
}

_PRECEDENCE = (
    "INFRA", "ART", "TAMPER", "STALE", "STRUCT", "GRAPH", "BACKEND", "PREC", "CORR", "TIMING", "PERF",
)  # fmt: skip
_PERF_FIRST = FailureCode.PERF_BELOW_FLOOR


def rank_failures(codes: list[FailureCode]) -> list[FailureCode]:
    """Return the distinct `codes`, the primary one first.

    Order: infrastructure, artifact, tampering, stale, structural, graph, backend, precision,
    correctness, timing, floor, performance; within a group, the order of `FailureCode`.
    """
    position = {code: index for index, code in enumerate(FailureCode)}

    def key(code: FailureCode) -> tuple[int, int]:
        return _PRECEDENCE.index(code.split("_", 1)[0]), position[code]

    return sorted(set(codes), key=key)


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


Figure = bool | int | float | str | None


class Check(Model):
    """One thing that a gate looked at: what was observed against what is allowed.

    `passed` is None for a figure that is recorded and decides nothing. `bound` says on which side of the allowed
    figure a check passes; it is empty where the two must be equal.
    """

    name: str
    label: str
    passed: bool | None
    observed: Figure = None
    allowed: Figure = None
    bound: Literal["", "at least", "at most"] = ""
    unit: str = ""
    code: FailureCode | None = None
    detail: str = ""


class GateResult(Model):
    gate: Gate
    status: GateStatus
    checks: list[Check] = []
    seconds: float = 0.0
    note: str = ""


class KernelRecord(Model):
    """One own kernel, as it ran in the graded call."""

    name: str
    digest: str
    launches: int
    programs: int
    grids: list[tuple[int, int, int]]
    options: dict[str, int | str | bool]
    operations: int = Field(description="arithmetic operations plus elements loaded and stored")
    own: bool = Field(description="defined with @triton.jit in the submitted file")
    ablation_share: float | None = Field(
        None,
        description="share of output elements that leave the error budget when what this kernel writes is replaced by noise",
    )


class LibraryRecord(Model):
    """One library operator that did arithmetic in the graded call."""

    name: str
    calls: int
    operations: int


class ActivityRecord(Model):
    """One kind of work on the GPU in a profiled call: a kernel, a copy or a fill."""

    name: str
    own: bool
    launches: int
    milliseconds: float
    share: float = Field(description="of the time of all work in that call")


class SideRecord(Model):
    """The timed calls of one side, in milliseconds."""

    samples: list[float]
    mean: float
    median: float
    tenth: float
    ninetieth: float
    variation: float = Field(description="standard deviation over mean")
    released_early: int = Field(
        0, description="calls in which the host waited for a result, so that the work could not be queued ahead"
    )


class ClockRecord(Model):
    """The device's events against the judge's own clock, in milliseconds, over windows of many queued calls."""

    windows: int
    calls: int = Field(description="calls in all windows")
    inside: float
    outside: float = Field(description="less what an empty window takes")
    allowed_difference: float
    empty_windows: list[float] = Field(description="what the judge's clock says of windows in which nothing is done")
    call_samples: list[float] = Field(description="the judge's clock of each timed call, flush and messages included")


class GpuRecord(Model):
    """The GPU while it was timed: clocks in MHz, degrees Celsius, watts."""

    name: str
    uuid: str
    driver: str
    sm_clock: tuple[int, int, int] = Field(description="lowest, median, highest")
    memory_clock: tuple[int, int, int]
    temperature: tuple[int, int]
    watts: tuple[float, float]
    disturbances: list[str] = Field([], description="why rounds were measured again")


class TimingRecord(Model):
    """How speed was measured and what came out."""

    mode: Literal["cold", "warm"]
    rounds: int
    sessions: int
    flush_bytes: int
    warm_ups: int
    sides: dict[Literal["eager", "compiled", "candidate"], SideRecord]
    profiled: dict[Literal["eager", "compiled"], float] = Field(
        {}, description="milliseconds of all work on the GPU in one call, by the profiler, apart from the timed calls"
    )
    baseline: Literal["eager", "compiled"]
    speedup: float
    speedup_interval: tuple[float, float]
    floor_milliseconds: float | None
    clocks: ClockRecord
    gpu: GpuRecord
    settings: dict[str, Figure] = Field(
        {}, description="the switches of the reference's process, read after each round"
    )


class MachineCodeRecord(Model):
    """What the pinned compiler made of one kernel that ran."""

    name: str
    digest: str
    architecture: str
    registers: int | None = None
    spill_bytes: int | None = None
    shared_bytes: int | None = None
    shared_limit_bytes: int | None = None
    instructions: int | None = None
    tensor_core: dict[str, int] = {}
    narrowing: dict[str, int] = {}
    offending_lines: list[str] = []
    error: str = ""


class DistributionRecord(Model):
    """Errors of one seeded input against the float64 oracle, in units of the error budget."""

    distribution: str
    visible: bool
    passed: bool
    largest_error: float | None
    budget_ratio: float | None = Field(
        None, description="largest error over the error allowed at that element; at most 1 passes"
    )
    reference_ratio: float | None = Field(None, description="the same for the eager reference")
    wrong_elements: int = 0
    elements: int = 0
    worst_index: list[int] = []
    nonfinite_mismatches: int = 0


class Evidence(Model):
    kernels: list[KernelRecord] = []
    library: list[LibraryRecord] = []
    machine_code: list[MachineCodeRecord] = []
    distributions: list[DistributionRecord] = []
    activities: list[ActivityRecord] = []
    timing: TimingRecord | None = None
    phases: dict[str, float] = Field({}, description="seconds that each part of the verification took")
    events: list[str] = []
    error: str = Field("", max_length=MESSAGE_CAP)
    traceback: str = Field("", max_length=OUTPUT_CAP)
    output_tail: str = Field("", max_length=OUTPUT_CAP, description="stdout and stderr of the submission; hostile text")


class Verdict(Model):
    """Everything that one verification found."""

    schema_id: str = Field(VERDICT_SCHEMA, alias="schema")
    task: str
    environment: str
    solution_sha256: str
    verifier_version: str
    versions: dict[str, str] = {}
    started_at: datetime
    seconds: float
    outcome: Outcome
    failures: list[FailureCode] = Field([], description="all failure codes, the primary one first")
    gates: list[GateResult]
    evidence: Evidence = Evidence()
    speedup: float | None = Field(None, description="counted speedup: only when gates 0 to 3 passed")
    measured_speedup: float | None = Field(None, description="what the stopwatch said, also for rejected runs")
    target: float | None = None
    reward: float | None = None
    capture: float | None = None
    reward_version: int = 1

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, serialize_by_alias=True)

    @property
    def primary_failure(self) -> FailureCode | None:
        """The failure that decides, or None."""
        return self.failures[0] if self.failures else None

    @property
    def accepted(self) -> bool:
        """True when every gate before performance passed."""
        return self.outcome in (Outcome.PASSED, Outcome.ACCEPTED, Outcome.BELOW_TARGET)

    def gate(self, gate: Gate) -> GateResult:
        """Return the result of one gate."""
        return next(result for result in self.gates if result.gate is gate)

    def to_json(self, indent: int | None = None) -> str:
        """Return the published JSON form."""
        return self.model_dump_json(by_alias=True, indent=indent)


def compute_digest(verdict: Verdict) -> str:
    """Return a SHA-256 over what the verdict decides, without times.

    Two verifications that found the same codes by the same verifier share it.
    """
    decided: dict[str, Any] = {
        "task": verdict.task,
        "environment": verdict.environment,
        "solution": verdict.solution_sha256,
        "verifier": verdict.verifier_version,
        "outcome": verdict.outcome,
        "failures": list(verdict.failures),
        "gates": [[result.gate, result.status] for result in verdict.gates],
    }
    return hashlib.sha256(json.dumps(decided, sort_keys=True).encode()).hexdigest()
