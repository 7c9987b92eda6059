"""Conducts one verification. Holds every secret, runs nothing that was submitted, and writes the verdict."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from verifier import __version__, sandbox
from verifier.boxes import Boxes
from verifier.bundle import BundleError, check_bytes
from verifier.environment import EnvironmentSpecification
from verifier.faults import InfrastructureFault
from verifier.gates.performance import report_not_timed
from verifier.reward import compute_reward
from verifier.task import Task
from verifier.verdict import (
    MESSAGE_CAP,
    OUTPUT_CAP,
    Check,
    Evidence,
    FailureCode,
    Gate,
    GateResult,
    GateStatus,
    Outcome,
    Verdict,
    rank_failures,
)

# Codes that an operation without a model cannot have caused.
CERTAIN = ("PREC_", "STRUCT_", "STALE_", "TAMPER_", "GRAPH_", "BACKEND_")

# Tensors lie at round places in shared memory.
ROOM_A_TENSOR = 4096

Progress = Callable[[dict[str, Any]], None]


def list_versions() -> dict[str, str]:
    """Return the versions that a verdict depends on."""
    packages = {name: importlib.metadata.version(name) for name in ("torch", "triton", "numpy")}
    return {"python": platform.python_version(), **packages, "platform": platform.platform()}


def ignore(event: dict[str, Any]) -> None:
    """Report progress to nobody."""


def measure_slab(task: Task, environment: EnvironmentSpecification) -> int:
    """Return the bytes that the largest set of tensors of a task needs: inputs, parameters or outputs."""
    specification = task.specification
    dims = specification.dims.timed if environment.dims == "timed" else specification.dims.small
    return max(
        sum(item.measure(dims) + ROOM_A_TENSOR for item in group)
        for group in (specification.inputs, specification.parameters, specification.outputs)
    )


def create_shared_memory(size: int) -> int:
    """Return the descriptor of fresh memory that other processes can map."""
    descriptor = os.memfd_create("slab")
    os.ftruncate(descriptor, size)
    return descriptor


class Verification:
    """One run through the gates."""

    def __init__(
        self, task: Task, data: bytes, environment: EnvironmentSpecification, progress: Progress = ignore
    ) -> None:
        self.task, self.data, self.environment = task, data, environment
        self.source = ""
        self.started_at, self.started = datetime.now(UTC), time.monotonic()
        self.results: dict[Gate, GateResult] = {}
        self.causes: list[FailureCode] = []
        self.uncertain = False
        self.error, self.traceback = "", ""
        self.evidence = Evidence()
        self.output = ""
        self.notify = progress

    def progress(self, event: dict[str, Any]) -> None:
        """Report an event with the seconds since the start."""
        self.notify({"t": round(time.monotonic() - self.started, 2), **event})

    def run(self) -> Verdict:
        """Return the verdict. Raises SandboxUnavailable when this host may not judge at all."""
        try:
            self.source = check_bytes(self.data)
        except BundleError as error:
            self.refuse(error)
            return self.conclude()
        if self.environment.timed:
            raise InfrastructureFault(f"this verifier cannot time in environment {self.environment.slug}")
        sandbox.probe()
        try:
            self.run_gates()
        except InfrastructureFault as fault:
            self.uncertain = True
            self.error = self.error or str(fault)
        return self.conclude()

    def refuse(self, error: BundleError) -> None:
        """Record a submission that is no usable file."""
        checks = [
            Check(
                name="bundle",
                label="one UTF-8 text file of at most 256 KiB",
                passed=False,
                observed=error.message,
                code=error.code,
            )
        ]
        self.finish_gate(Gate.INTAKE, checks, 0.0)
        self.error = error.message

    def run_gates(self) -> None:
        with tempfile.TemporaryDirectory(prefix="kq-") as folder:
            solution = Path(folder) / "solution.py"
            solution.write_bytes(self.data)
            # The boxed process runs as another user and must be able to read its one file.
            Path(folder).chmod(0o711)
            solution.chmod(0o644)
            descriptor = create_shared_memory(measure_slab(self.task, self.environment))
            try:
                with Boxes(solution, self.environment, descriptor) as boxes:
                    # PyTorch is imported only now, while the boxes start.
                    from verifier.candidate.slab import Slab  # noqa: PLC0415
                    from verifier.conduct import conduct  # noqa: PLC0415

                    conduct(self, boxes, Slab(descriptor))
            finally:
                os.close(descriptor)

    def finish_gate(self, gate: Gate, checks: list[Check], seconds: float) -> None:
        status = GateStatus.FAILED if any(item.passed is False for item in checks) else GateStatus.PASSED
        self.results[gate] = GateResult(gate=gate, status=status, checks=checks, seconds=round(seconds, 3))
        self.progress({"event": "gate", "gate": gate, "state": status})

    def rank(self, codes: list[FailureCode]) -> list[FailureCode]:
        """Return the codes in order: what caused a failed first call, then by precedence.

        Evidence that was lost leaves only what it cannot have caused.
        """
        failures = rank_failures([*self.causes, *codes])
        failures.sort(key=lambda code: code not in self.causes)
        if self.uncertain and not any(code.startswith(CERTAIN) for code in failures):
            return [FailureCode.INFRA_EVIDENCE_LOST, *failures]
        return failures

    def conclude(self) -> Verdict:
        """Write the verdict from what the gates found."""
        gates = [
            self.results.get(gate) or GateResult(gate=gate, status=GateStatus.SKIPPED)
            for gate in Gate
            if gate is not Gate.PERFORMANCE
        ]
        skipped = self.results.get(Gate.INTAKE) is None or any(item.status is GateStatus.SKIPPED for item in gates)
        gates.append(GateResult(gate=Gate.PERFORMANCE, status=GateStatus.SKIPPED) if skipped else report_not_timed())
        failures = self.rank([item.code for result in gates for item in result.checks if item.code is not None])
        outcome = (
            Outcome.ACCEPTED
            if not failures
            else Outcome.INFRASTRUCTURE
            if failures[0].is_infrastructure
            else Outcome.REJECTED
        )
        self.progress({"event": "verdict", "outcome": outcome, "failure": failures[0] if failures else None})
        return Verdict(
            task=self.task.id,
            environment=self.environment.slug,
            solution_sha256=hashlib.sha256(self.data).hexdigest(),
            verifier_version=__version__,
            versions=list_versions(),
            started_at=self.started_at,
            seconds=round(time.monotonic() - self.started, 3),
            outcome=outcome,
            failures=failures,
            gates=gates,
            evidence=self.evidence.model_copy(
                update={
                    "error": self.error[:MESSAGE_CAP],
                    "traceback": self.traceback[:OUTPUT_CAP],
                    "output_tail": self.output[:OUTPUT_CAP],
                }
            ),
            reward=compute_reward(failures, None, None),
        )


def verify(task: Task, data: bytes, environment: EnvironmentSpecification, progress: Progress = ignore) -> Verdict:
    """Verify the bytes of a submission and return the verdict. Raises SandboxUnavailable."""
    return Verification(task, data, environment, progress).run()
