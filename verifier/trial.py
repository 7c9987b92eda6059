"""What the gates of one verification share: the task, the secrets, the session, and the calls made so far."""

from __future__ import annotations

import re
import secrets
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import Literal

import torch

from verifier.boxes import SOLUTION_PATH
from verifier.candidate.channel import Channel, Message
from verifier.candidate.transfer import pack_tensors, unpack_tensors
from verifier.compiler import Compiler
from verifier.environment import EnvironmentSpecification
from verifier.faults import CandidateFault, InfrastructureFault
from verifier.interpreter.poison import has_poison
from verifier.modules import TaskModules
from verifier.oracle import Comparison, compare_all, has_same_bits
from verifier.session import CallRecord, CallResult, DeviceInput, KernelText, OutputType, Session, Tensors
from verifier.task import Task
from verifier.verdict import Check, DistributionRecord, Evidence, FailureCode, Figure

REFERENCE_SECONDS = 120.0
DETAIL_CAP = 500


class Reference:
    """The judge's line to the reference worker."""

    def __init__(self, task: Task) -> None:
        """Start the worker. Close it, or use it as a context manager."""
        self.task = task
        end, worker_end = socket.socketpair()
        command = [sys.executable, "-m", "verifier.reference", str(worker_end.fileno())]
        self.process = subprocess.Popen(command, pass_fds=[worker_end.fileno()], stdin=subprocess.DEVNULL)
        worker_end.close()
        self.channel = Channel(end)

    def ask(self, message: Message, data: bytes = b"") -> tuple[Message, bytes]:
        """Ask the worker. Raises InfrastructureFault."""
        self.channel.deadline = time.monotonic() + REFERENCE_SECONDS
        try:
            return self.channel.ask(message, data)
        except Exception as error:
            raise InfrastructureFault(f"the reference worker failed: {type(error).__name__}: {error}") from error

    def prepare(self, dims: dict[str, int], seed: int) -> Tensors:
        """Return a seeded state of the reference."""
        answer, data = self.ask({"do": "prepare", "task": str(self.task.path), "dims": dims, "seed": seed})
        return unpack_tensors(answer["state"], data)

    def run(self, inputs: Tensors) -> tuple[list[torch.Tensor], dict[str, int]]:
        """Return the eager reference's outputs and its operations by operator."""
        described, data = pack_tensors(inputs)
        answer, result = self.ask({"do": "run", "inputs": described}, data)
        return list(unpack_tensors(answer["outputs"], result).values()), answer["operations"]

    def close(self) -> None:
        """End the worker."""
        self.channel.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


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


@dataclass
class Trial:
    """The state of one verification."""

    task: Task
    source: str
    environment: EnvironmentSpecification
    modules: TaskModules
    session: Session
    reference: Reference
    compiler: Compiler
    state: Tensors = field(default_factory=dict)
    state_inputs: list[DeviceInput] = field(default_factory=list)
    nominal: Sample | None = None
    model_state: dict[str, int] = field(default_factory=dict)
    placed: list[DeviceInput] = field(default_factory=list)
    records: list[CallRecord] = field(default_factory=list)
    results: list[CallResult] = field(default_factory=list)
    mutated: set[str] = field(default_factory=set)
    answered: list[Sample] = field(default_factory=list)
    reference_operations: int = 0
    faults: list[CandidateFault] = field(default_factory=list)
    distributions: list[DistributionRecord] = field(default_factory=list)
    evidence: Evidence = field(default_factory=Evidence)

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
        generator = torch.Generator().manual_seed(secrets.randbits(62))
        return self.modules.generate(distribution, self.dims, generator)

    def place(self, distribution: str, inputs: Tensors | None = None) -> Sample:
        """Put a fresh input set on the device and compute its oracle."""
        drawn = self.draw(distribution) if inputs is None else inputs
        oracle = self.modules.compute_oracle(drawn, self.state, self.dims)
        placed = self.session.put(drawn)
        self.placed += placed
        return Sample(distribution, self.is_visible(distribution), drawn, placed, oracle)

    def replace(self, sample: Sample, inputs: Tensors, distribution: str = "") -> Sample:
        """Return a sample with new values, of `distribution` when it is another, at the addresses of `sample`."""
        self.session.overwrite(sample.placed, inputs)
        name = distribution or sample.distribution
        oracle = self.modules.compute_oracle(inputs, self.state, self.dims)
        return Sample(name, self.is_visible(name), inputs, sample.placed, oracle)

    def is_visible(self, distribution: str) -> bool:
        """Return whether agents may see a distribution."""
        return distribution in {item.name for item in self.task.specification.visible_distributions}

    def call(
        self, sample: Sample, *, instance: int = 0, ablate: list[str] | None = None, first: bool = False
    ) -> CallResult:
        """Run one call on a sample and compare it, unless it is ablated. Raises CandidateFault."""
        result = self.session.call(instance, sample.placed, self.output_types, ablate=ablate, first=first)
        if ablate is None:
            self.records.append(result.record)
            sample.result = result
            sample.comparison = compare_all(result.outputs, sample.oracle, self.task.specification.tolerance)
            self.results.append(result)
            self.mutated |= {
                item.name
                for item in sample.placed
                if not has_same_bits([self.session.read(item.described)], [sample.inputs[item.name]])
            }
        return result

    def is_own(self, kernel: KernelText) -> bool:
        """Return whether Triton's front end made a kernel from a function that the submitted file defines."""
        defined = re.search(rf"^[ \t]*def[ \t]+{re.escape(kernel.name)}[ \t]*\(", self.source, re.MULTILINE)
        return kernel.file == SOLUTION_PATH and defined is not None

    def explain_wrong(self, sample: Sample, otherwise: FailureCode) -> FailureCode:
        """Return the code of a wrong output: what it left unwritten, what it repeats, or `otherwise`."""
        assert sample.result is not None
        outputs = sample.result.outputs
        if any(has_poison(output, self.session.poison) for output in outputs):
            return FailureCode.STALE_UNWRITTEN
        others = [earlier for earlier in self.answered if not same_tensors(earlier.inputs, sample.inputs)]
        repeated = [earlier for earlier in others if earlier.result and has_same_bits(earlier.result.outputs, outputs)]
        if others and len(repeated) == len(others):
            return FailureCode.STALE_CONSTANT
        # A wrong answer may repeat by chance, all zeros for one; a right answer to another question may not.
        if any(earlier.comparison and earlier.comparison.passed for earlier in repeated):
            return FailureCode.STALE_ALIAS_REPLAY
        return otherwise

    def read_events(self) -> dict[str, int]:
        """Return what the device was told of or saw, in any call so far."""
        if self.session.alive:
            return self.session.end_record().events
        return self.records[-1].events if self.records else {}

    def remember(self, sample: Sample) -> None:
        """Keep an answered sample, so that a later repetition of its output is recognised."""
        self.answered.append(sample)


def same_tensors(left: Tensors, right: Tensors) -> bool:
    return has_same_bits(list(left.values()), list(right.values()))


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
