"""What the gates of one verification share: the task, the secrets, the session, and the calls made so far."""

from __future__ import annotations

import math
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import torch

from verifier.boxes import SOLUTION_PATH
from verifier.candidate.channel import Message
from verifier.candidate.slab import measure
from verifier.device.poison import has_poison
from verifier.environment import EnvironmentSpecification
from verifier.evidence.clocks import Gpu
from verifier.faults import CandidateFault, InfrastructureFault
from verifier.limits import ROUNDS
from verifier.modules import TaskModules
from verifier.oracle import Comparison, compare_all, fingerprint, has_same_bits
from verifier.referee import Reference
from verifier.session import (
    Ablation,
    CallRecord,
    CallResult,
    DeviceInput,
    KernelText,
    Mode,
    OutputType,
    Session,
    Tensors,
)
from verifier.task import Task
from verifier.verdict import Check, DistributionRecord, Evidence, FailureCode, Figure, TimingRecord

DETAIL_CAP = 500
# Of the device's memory, what results may take that are kept to see whether later calls change them.
HELD_SHARE = 1 / 8

Fingerprint = tuple[int, ...]


class Code(Protocol):
    """Where the machine code of kernels comes from: the compile box, or the GPU that loaded it."""

    def submit(self, kernels: list[KernelText]) -> None:
        """Say which kernels will be asked for."""

    def collect(self, kernels: list[KernelText]) -> list[Message]:
        """Return sass, registers, spilled and shared of each kernel, or error."""
        ...


@dataclass
class Sample:
    """One seeded input set, where it lies on the device, and what its outputs should be."""

    distribution: str
    visible: bool
    inputs: Tensors
    placed: list[DeviceInput]
    oracle: tuple[torch.Tensor, ...]
    result: CallResult | None = None
    comparison: Comparison | None = None


@dataclass(frozen=True)
class Answered:
    """A question that was answered: prints of what went in and what came out, and whether it was right."""

    inputs: Fingerprint
    outputs: Fingerprint
    passed: bool


@dataclass(frozen=True)
class Held:
    """A result that is kept on the device, with a print of what it held when its call ended."""

    places: list[Message]
    print: Fingerprint

    @property
    def bytes(self) -> int:
        return sum(measure(place["shape"], place["dtype"]) for place in self.places)


@dataclass
class Freshness:
    """Whether results share storage or change after their call. Keeps as many as `capacity` bytes allow."""

    session: Session
    capacity: int
    kept: list[Held] = field(default_factory=list)
    results: int = 0
    shared: int = 0
    changed: int = 0

    def add(self, result: CallResult) -> None:
        """Look at a new result's storages and keep it. Raises CandidateFault."""
        taken = {*self.session.given.values(), *(place["storage"] for held in self.kept for place in held.places)}
        self.shared += len({place["storage"] for place in result.places} & taken)
        self.kept.append(Held(result.places, fingerprint(result.outputs)))
        self.results += 1
        while sum(held.bytes for held in self.kept) > self.capacity and len(self.kept) > 1:
            self.release(self.kept.pop(0))

    def release(self, held: Held) -> None:
        """Look at a kept result for the last time."""
        self.changed += fingerprint(self.session.read(held.places)) != held.print
        self.session.drop([place["handle"] for place in held.places])

    def finish(self) -> None:
        """Look at everything that is still kept. Raises CandidateFault."""
        while self.kept:
            self.release(self.kept.pop(0))


def ignore(event: object) -> None:
    """Report progress to nobody."""


@dataclass
class Trial:
    """The state of one verification."""

    task: Task
    source: str
    environment: EnvironmentSpecification
    modules: TaskModules
    session: Session
    reference: Reference
    code: Code
    freshness: Freshness
    state: Tensors = field(default_factory=dict)
    nominal: Sample | None = None
    model_state: dict[str, int] = field(default_factory=dict)
    records: list[CallRecord] = field(default_factory=list)
    queued: list[CallRecord] = field(default_factory=list)
    profiled: list[CallRecord] = field(default_factory=list)
    mutated: set[str] = field(default_factory=set)
    answered: list[Answered] = field(default_factory=list)
    reference_operations: int = 0
    faults: list[CandidateFault] = field(default_factory=list)
    distributions: list[DistributionRecord] = field(default_factory=list)
    evidence: Evidence = field(default_factory=Evidence)
    gpu: Gpu | None = None
    target: float | None = None
    timing: TimingRecord | None = None
    rounds: int = ROUNDS
    judging_seconds: float = math.inf
    report: Callable[[dict[str, Any]], None] = ignore
    pass_phase: Callable[[str], None] = ignore

    @property
    def dims(self) -> dict[str, int]:
        dims = self.task.specification.dims
        return dims.timed if self.environment.dims == "timed" else dims.small

    @property
    def output_types(self) -> list[OutputType]:
        """The shapes and dtypes that every call must return."""
        return [(list(item.resolve_shape(self.dims)), item.dtype) for item in self.task.specification.outputs]

    def draw(self, distribution: str) -> Tensors:
        """Return a fresh, secretly seeded input set."""
        generator = torch.Generator(self.session.where).manual_seed(secrets.randbits(62))
        return self.modules.generate(distribution, self.dims, generator)

    def place(self, distribution: str, inputs: Tensors | None = None) -> Sample:
        """Put a fresh input set on the device and compute its oracle."""
        drawn = self.draw(distribution) if inputs is None else inputs
        placed = self.session.put(drawn)
        return Sample(distribution, self.is_visible(distribution), drawn, placed, self.compute_oracle(drawn))

    def replace(self, sample: Sample, inputs: Tensors, distribution: str = "") -> Sample:
        """Return a sample with new values, of `distribution` when it is another, at the addresses of `sample`."""
        self.session.overwrite(sample.placed, inputs)
        name = distribution or sample.distribution
        return Sample(name, self.is_visible(name), inputs, sample.placed, self.compute_oracle(inputs))

    def retire(self, sample: Sample) -> None:
        """Take a sample's inputs from the device; those of the first call stay."""
        if sample.placed and (self.nominal is None or sample.placed is not self.nominal.placed):
            self.session.drop([item.handle for item in sample.placed])

    def compute_oracle(self, inputs: Tensors) -> tuple[torch.Tensor, ...]:
        """Return the float64 (or exact) outputs for an input set and the current parameters."""
        return self.modules.compute_oracle(inputs, self.state, self.dims)

    def is_visible(self, distribution: str) -> bool:
        """Return whether agents may see a distribution."""
        return distribution in {item.name for item in self.task.specification.visible_distributions}

    def pick_hidden(self) -> str:
        """Return a secretly chosen distribution, a hidden one when there is any."""
        everything = self.task.specification.distributions
        hidden = [item.name for item in everything if not item.visible]
        return secrets.choice(hidden or [item.name for item in everything])

    def call(
        self, sample: Sample, *, instance: int = 0, ablate: Ablation | None = None, first: bool = False
    ) -> CallResult:
        """Run one call on a sample and compare it, unless it is ablated. Raises CandidateFault."""
        result = self.session.call(instance, sample.placed, self.output_types, ablate=ablate, first=first)
        if ablate is None:
            self.records.append(result.record)
            self.judge(sample, result)
            self.freshness.add(result)
            self.watch_inputs(sample)
        return result

    def judge(self, sample: Sample, result: CallResult) -> None:
        """Compare a result with the sample's oracle."""
        sample.result = result
        sample.comparison = compare_all(result.outputs, sample.oracle, self.task.specification.tolerance)

    def measure_judging(self, inputs: Tensors, outputs: list[torch.Tensor]) -> None:
        """Learn how long an oracle and a comparison take, once their code is loaded."""
        started = time.perf_counter()
        compare_all(outputs, self.compute_oracle(inputs), self.task.specification.tolerance)
        self.judging_seconds = time.perf_counter() - started

    def watch_inputs(self, sample: Sample) -> None:
        """Note which inputs no longer hold what the judge put there."""
        found = self.session.read([item.described for item in sample.placed])
        self.mutated |= {
            item.name
            for item, value in zip(sample.placed, found, strict=True)
            if not has_same_bits([value], [sample.inputs[item.name]])
        }

    def call_measured(self, distribution: str, mode: Mode, *, verify: bool) -> tuple[CallRecord, bool | None]:
        """Run one call on fresh inputs with the device measuring it. Raises CandidateFault.

        When asked, return whether the result is right, in storage of its own, and the inputs untouched.
        """
        inputs = self.draw(distribution)
        placed = self.session.put(inputs)
        result = self.session.call(0, placed, self.output_types, mode=mode, read=verify)
        self.records.append(result.record)
        sound = None
        if verify:
            oracle = self.compute_oracle(inputs)
            sound = compare_all(result.outputs, oracle, self.task.specification.tolerance).passed
            sound &= not {place["storage"] for place in result.places} & {*self.session.given.values()}
            sound &= has_same_bits(self.session.read([item.described for item in placed]), list(inputs.values()))
        self.session.drop([*(item.handle for item in placed), *(place["handle"] for place in result.places)])
        return result.record, sound

    def is_own(self, kernel: KernelText) -> bool:
        """Return whether Triton's front end made a kernel from a function that the submitted file defines."""
        defined = re.search(rf"^[ \t]*def[ \t]+{re.escape(kernel.name)}[ \t]*\(", self.source, re.MULTILINE)
        # A kernel may be given another name for profilers: @triton.jit(repr=...).
        renamed = re.search(r"\brepr[ \t]*=", self.source)
        return kernel.file == SOLUTION_PATH and (defined or renamed) is not None

    def explain_wrong(self, sample: Sample, otherwise: FailureCode) -> FailureCode:
        """Return the code of a wrong output: what it left unwritten, what it repeats, or `otherwise`."""
        assert sample.result is not None
        outputs = sample.result.outputs
        if any(has_poison(output, self.session.poison) for output in outputs):
            return FailureCode.STALE_UNWRITTEN
        asked, found = fingerprint(list(sample.inputs.values())), fingerprint(outputs)
        others = [earlier for earlier in self.answered if earlier.inputs != asked]
        repeated = [earlier for earlier in others if earlier.outputs == found]
        if others and len(repeated) == len(others):
            return FailureCode.STALE_CONSTANT
        # A wrong answer may repeat by chance, all zeros for one; a right answer to another question may not.
        if any(earlier.passed for earlier in repeated):
            return FailureCode.STALE_ALIAS_REPLAY
        return otherwise

    def list_all_records(self) -> list[CallRecord]:
        """Return the records of all calls, and of the work beside them."""
        return [*self.records, *self.queued, *self.session.constructions]

    def read_events(self) -> dict[str, int]:
        """Return what the device was told of or saw, in any call so far."""
        try:
            return self.session.end_record().events
        except (CandidateFault, InfrastructureFault):
            return self.records[-1].events if self.records else {}

    def remember(self, sample: Sample) -> None:
        """Keep prints of an answered sample, so that a later repetition of its output is recognised."""
        assert sample.result is not None
        assert sample.comparison is not None
        inputs, outputs = fingerprint(list(sample.inputs.values())), fingerprint(sample.result.outputs)
        self.answered.append(Answered(inputs, outputs, sample.comparison.passed))


def check(  # noqa: PLR0913 - the figures of one check, all named at the call
    name: str,
    label: str,
    *,
    passed: bool | None,
    code: FailureCode | None = None,
    observed: Figure = None,
    allowed: Figure = None,
    bound: Literal["", "at least", "at most"] = "",
    unit: str = "",
    detail: str = "",
) -> Check:
    """Return a check; its code is kept only when it failed."""
    return Check(
        name=name,
        label=label,
        passed=passed,
        observed=observed,
        allowed=allowed,
        bound=bound,
        unit=unit,
        code=code if passed is False else None,
        detail=detail[:DETAIL_CAP],
    )


def check_absent(name: str, label: str, code: FailureCode, seen: int, unit: str) -> Check:
    """Return a check of something that must not be seen at all."""
    return check(name, label, passed=seen == 0, code=code, observed=seen, allowed=0, unit=unit)
