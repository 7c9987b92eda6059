"""Conducts one verification. Holds every secret, runs nothing that was submitted, and writes the verdict."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from verifier import __version__, sandbox
from verifier.boxes import Boxes
from verifier.bundle import BundleError, check_bytes
from verifier.certificate import load_certificate
from verifier.environment import EnvironmentSpecification
from verifier.evidence.clocks import Gpu, Lease
from verifier.faults import InfrastructureFault
from verifier.limits import ROUNDS, TimeLimits, choose_limits
from verifier.reward import compute_capture, compute_reward
from verifier.task import Task
from verifier.turns import Turns
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
from verifier.worker import Workers

# Codes that an operation without a model cannot have caused.
CERTAIN = ("PREC_", "STRUCT_", "STALE_", "TAMPER_", "GRAPH_", "BACKEND_")

# Tensors lie at round places in shared memory.
ROOM_A_TENSOR = 4096

NOT_TIMED = "not timed in this environment"

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
        for group in (specification.inputs, specification.list_state(dims), specification.outputs)
    )


@dataclass(frozen=True)
class Plan:
    """How a verification is run: time limits, rounds of timed calls, and who else may use the GPU meanwhile.

    Without rounds nothing is timed. With `turns`, the GPU is leased already and shared among `sharing`; with
    `workers`, reference workers outlive the verification. Without `use_target` a certificate decides nothing. With
    `gates`, only these are run, and what comes out is a measurement and no verdict.
    """

    limits: TimeLimits
    rounds: int = ROUNDS
    turns: Turns | None = None
    sharing: int = 1
    workers: Workers | None = None
    use_target: bool = True
    gates: frozenset[Gate] = frozenset(Gate)


@contextmanager
def share_gpu(environment: EnvironmentSpecification, jobs: int) -> Iterator[tuple[ThreadPoolExecutor, Turns | None]]:
    """Lease the GPU for several verifications of this process; lend threads for them and the turns that they take.

    There are no turns where nothing is timed. Whoever breaks off leaves out what has not begun. Raises
    InfrastructureFault.
    """
    with ExitStack() as stack:
        if environment.timed:
            check_versions(environment)
            gpu = Gpu()
            stack.enter_context(Lease(gpu.uuid, lambda: None))
            gpu.check_idle()
        pool = ThreadPoolExecutor(jobs)
        stack.callback(pool.shutdown, cancel_futures=True)
        yield pool, Turns() if environment.timed else None


@contextmanager
def share_memory(size: int) -> Iterator[int]:
    """Lend the descriptor of fresh memory that a box can map."""
    descriptor = os.memfd_create("device")
    os.ftruncate(descriptor, size)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


class Verification:
    """One run through the gates."""

    def __init__(
        self,
        task: Task,
        data: bytes,
        environment: EnvironmentSpecification,
        progress: Progress = ignore,
        plan: Plan | None = None,
    ) -> None:
        self.task, self.data, self.environment = task, data, environment
        self.plan = plan or Plan(choose_limits(environment))
        self.source = ""
        self.started_at, self.started = datetime.now(UTC), time.monotonic()
        self.results: dict[Gate, GateResult] = {}
        self.causes: list[FailureCode] = []
        self.lost: FailureCode | None = None
        self.gpu: Gpu | None = None
        self.target: float | None = None
        self.error, self.traceback = "", ""
        self.evidence = Evidence()
        self.output = ""
        self.notify = progress
        self.phases: dict[str, float] = {}
        self.phase_started = self.started

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
        sandbox.probe()
        try:
            if self.environment.timed:
                self.run_on_gpu()
            else:
                self.run_gates()
        except InfrastructureFault as fault:
            self.lose(fault)
        except RuntimeError as error:
            # Submissions' work fails in a process of its own, so this is the GPU or the oracle on it.
            if "CUDA" not in str(error):
                raise
            self.lose(InfrastructureFault(f"the GPU failed: {error}", FailureCode.INFRA_GPU_FAULT))
        return self.conclude()

    def lose(self, fault: InfrastructureFault, gate: Gate | None = None) -> None:
        """Record that something of ours failed, and with it a gate when one is named."""
        self.lost = self.lost or fault.code
        self.error = self.error or str(fault)
        if gate is not None:
            self.results[gate] = GateResult(gate=gate, status=GateStatus.SKIPPED, note=f"no result: {fault}"[:300])
            self.progress({"event": "gate", "gate": gate, "state": GateStatus.SKIPPED})

    def report_waiting(self) -> None:
        """Say that somebody else has the GPU."""
        self.progress({"event": "waiting", "for": "the GPU"})

    def run_on_gpu(self) -> None:
        """Run the gates with the GPU to ourselves. Raises InfrastructureFault."""
        check_versions(self.environment)
        certificate = load_certificate(self.task, self.environment.slug)
        self.target = certificate.target if certificate and self.plan.use_target else None
        self.gpu = Gpu()
        check_gpu(self.gpu, self.environment)
        # All processes of a verification use the same GPU, in whatever order CUDA counts them.
        os.environ["CUDA_VISIBLE_DEVICES"] = self.gpu.uuid
        if self.plan.turns:
            with self.plan.turns.beside():
                self.pass_phase("waiting")
                self.run_gates()
            return
        with Lease(self.gpu.uuid, self.report_waiting):
            self.gpu.check_idle()
            self.run_gates()

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
            size = measure_slab(self.task, self.environment)
            with (
                share_memory(size) as slab,
                Boxes(solution, self.environment, slab, self.gpu.visible if self.gpu else None) as boxes,
                nullcontext(self.plan.workers) if self.plan.workers else Workers() as workers,
                workers.borrow(self.task, self.environment, size) as worker,
            ):
                # PyTorch is imported only now, while the other processes start.
                from verifier.conduct import conduct  # noqa: PLC0415

                conduct(self, boxes, worker, slab)

    def pass_phase(self, name: str) -> None:
        """Note how long a part took."""
        now = time.monotonic()
        self.phases[name] = round(self.phases.get(name, 0.0) + now - self.phase_started, 3)
        self.phase_started = now

    @contextmanager
    def take_turn(self, gate: Gate) -> Iterator[None]:
        """Have the GPU as a gate needs it: what is timed runs while no other verification works on it."""
        if self.plan.turns is None or gate is not Gate.PERFORMANCE:
            yield
            return
        with self.plan.turns.alone():
            self.pass_phase("waiting")
            try:
                yield
            finally:
                self.pass_phase(gate)
        self.pass_phase("waiting")

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
        if self.lost and not any(code.startswith(CERTAIN) for code in failures):
            return [self.lost, *failures]
        return failures

    def list_gates(self) -> list[GateResult]:
        """Return the result of every gate, in the order in which they are shown."""
        gates = [self.results.get(gate) or GateResult(gate=gate, status=GateStatus.SKIPPED) for gate in Gate]
        reached = self.results.get(Gate.INTAKE) is not None
        if reached and not self.environment.timed and gates[2].status is not GateStatus.SKIPPED:
            gates[-1] = GateResult(gate=Gate.PERFORMANCE, status=GateStatus.NOT_TIMED, note=NOT_TIMED)
        return gates

    def conclude(self) -> Verdict:
        """Write the verdict from what the gates found."""
        gates = self.list_gates()
        failures = self.rank([item.code for result in gates for item in result.checks if item.code is not None])
        outcome = decide_outcome(failures, target=self.target)
        timing = self.evidence.timing
        measured = timing.speedup if timing else None
        counted = measured if outcome in (Outcome.PASSED, Outcome.ACCEPTED, Outcome.BELOW_TARGET) else None
        headroom = self.target is not None and self.target > 1.0
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
            speedup=counted,
            measured_speedup=measured,
            target=self.target,
            reward=compute_reward(failures, counted, self.target),
            capture=compute_capture(counted, self.target) if counted and self.target and headroom else None,
        )


def decide_outcome(failures: list[FailureCode], *, target: float | None) -> Outcome:
    """Return the outcome of a run with these failures, the primary one first."""
    if not failures:
        return Outcome.ACCEPTED if target is None else Outcome.PASSED
    if failures[0].is_infrastructure:
        return Outcome.INFRASTRUCTURE
    slow = (FailureCode.PERF_SLOWER_THAN_BASELINE, FailureCode.PERF_BELOW_TARGET)
    return Outcome.BELOW_TARGET if all(code in slow for code in failures) else Outcome.REJECTED


def check_versions(environment: EnvironmentSpecification) -> None:
    """Raise InfrastructureFault when this host's software is not the environment's."""
    for name in ("torch", "triton"):
        found, wanted = importlib.metadata.version(name).split("+")[0], getattr(environment.versions, name)
        if found != wanted:
            raise InfrastructureFault(f"environment {environment.slug} needs {name} {wanted}; this host has {found}")


def check_gpu(gpu: Gpu, environment: EnvironmentSpecification) -> None:
    """Raise InfrastructureFault when the GPU is not the environment's."""
    if environment.device.name not in gpu.name:
        raise InfrastructureFault(
            f"environment {environment.slug} needs an {environment.device.name}; this host has an {gpu.name}"
        )


def verify(
    task: Task,
    data: bytes,
    environment: EnvironmentSpecification,
    progress: Progress = ignore,
    plan: Plan | None = None,
) -> Verdict:
    """Verify the bytes of a submission and return the verdict. Raises SandboxUnavailable."""
    return Verification(task, data, environment, progress, plan).run()


class Submission(NamedTuple):
    """What is to be verified: a task, the bytes of a file, and the rounds of timed calls."""

    task: Task
    data: bytes
    rounds: int = ROUNDS


def verify_each(
    submissions: Sequence[Submission], environment: EnvironmentSpecification, progress: Progress, jobs: int
) -> Iterator[tuple[int, Verdict]]:
    """Verify submissions, some at a time, and yield the number and verdict of each as it ends. Timed calls run alone.

    Raises SandboxUnavailable and InfrastructureFault.
    """
    with share_gpu(environment, jobs) as (pool, turns):
        limits = choose_limits(environment)
        futures = {
            pool.submit(
                verify,
                item.task,
                item.data,
                environment,
                name_task(progress, item.task),
                Plan(limits, rounds=item.rounds, turns=turns, sharing=jobs),
            ): number
            for number, item in enumerate(submissions)
        }
        for future in as_completed(futures):
            yield futures[future], future.result()


def name_task(progress: Progress, task: Task) -> Progress:
    """Return progress that names the task: several are under way."""
    return lambda event: progress({**event, "task": task.id})
