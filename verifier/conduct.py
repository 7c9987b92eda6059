"""Takes one submission through the gates and collects the evidence. Needs PyTorch; the judge does not."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import torch

from verifier.boxes import Boxes
from verifier.candidate.slab import Slab
from verifier.compiler import Compiler, LoadedCode
from verifier.faults import CandidateFault, InfrastructureFault, clean_text
from verifier.gates.correctness import CorrectnessGate
from verifier.gates.intake import IntakeGate
from verifier.gates.performance import PerformanceGate
from verifier.gates.policy import PolicyGate
from verifier.gates.structural import StructuralGate
from verifier.modules import load_task_modules
from verifier.referee import Reference
from verifier.session import Session
from verifier.trial import HELD_SHARE, Freshness, Trial, check
from verifier.verdict import Check, FailureCode, Gate
from verifier.worker import Worker

if TYPE_CHECKING:
    from verifier.judge import Verification


class GateProtocol(Protocol):
    """What every gate is."""

    gate: Gate

    def run(self, trial: Trial) -> list[Check]:
        """Make the gate's checks."""
        ...


# Structure and policy come last, so that they judge every call that was made, the timed ones too.
ORDER: tuple[Callable[[], GateProtocol], ...] = (
    IntakeGate,
    CorrectnessGate,
    PerformanceGate,
    StructuralGate,
    PolicyGate,
)


def conduct(verification: Verification, boxes: Boxes, worker: Worker, slab: int) -> None:
    """Run the gates of `verification` in `boxes`, with the reference in `worker`. Raises InfrastructureFault.

    `slab` is the descriptor of the memory that is shared with the device.
    """
    pinned = verification.environment.timed
    with Slab(slab, pinned=pinned) as device_slab, Slab(worker.slab, pinned=pinned) as reference_slab:
        trial = make_trial(verification, boxes, worker, device_slab, reference_slab)
        verification.pass_phase("start")
        try:
            run_gates(verification, trial)
            trial.reference.settle()
        finally:
            collect(verification, trial)


def make_trial(
    verification: Verification, boxes: Boxes, worker: Worker, device_slab: Slab, reference_slab: Slab
) -> Trial:
    """Return the state of a verification whose device has answered. Raises InfrastructureFault."""
    task, environment = verification.task, verification.environment
    where = torch.device("cuda", 0) if environment.timed else torch.device("cpu")
    session = Session(boxes, device_slab, where, verification.plan.limits)
    code = LoadedCode(session) if environment.timed else Compiler(boxes.compiler, environment.device.compute_capability)
    modules = load_task_modules(task)
    reference = Reference(task, worker, reference_slab, where)
    session.wait_until_ready()
    held_bytes = int(environment.device.memory_bytes * HELD_SHARE / verification.plan.sharing)
    freshness = Freshness(session, held_bytes)
    trial = Trial(task, verification.source, environment, modules, session, reference, code, freshness)
    trial.gpu, trial.target, trial.report = verification.gpu, verification.target, verification.progress
    trial.pass_phase = verification.pass_phase
    trial.rounds = verification.plan.rounds
    return trial


def run_gates(verification: Verification, trial: Trial) -> None:
    """Run the gates in order; without an accepted first call nothing further can be judged."""
    for make in ORDER:
        gate = make()
        if gate.gate not in verification.plan.gates:
            continue
        if gate.gate is Gate.PERFORMANCE and not (trial.environment.timed and trial.session.alive and trial.rounds):
            continue
        verification.progress({"event": "gate", "gate": gate.gate, "state": "started"})
        started = time.monotonic()
        try:
            if gate.gate is Gate.PERFORMANCE:
                # The baselines may be compiling still, and nothing of that belongs into somebody else's timed calls.
                trial.reference.settle()
            with verification.take_turn(gate.gate):
                started = time.monotonic()
                checks = gate.run(trial)
        except CandidateFault as fault:
            trial.faults.append(fault)
            label = "the submission lives until the gate ends"
            checks = [check("survival", label, passed=False, code=fault.code, observed=fault.message[:300])]
        except InfrastructureFault as fault:
            if gate.gate is not Gate.PERFORMANCE:
                raise
            # What the other gates find stands all the same.
            verification.lose(fault, gate.gate)
            continue
        verification.finish_gate(gate.gate, checks, time.monotonic() - started)
        trial.pass_phase(gate.gate)
        if gate.gate is Gate.INTAKE and trial.nominal is None:
            name_cause(verification, trial)
            read_uninterpretable(verification, trial)
            break


def read_uninterpretable(verification: Verification, trial: Trial) -> None:
    """Machine code tells what a kernel does to precision although this environment could not run it."""
    record = trial.faults[-1].record if trial.faults else None
    if record is None or not record.uninterpretable or not trial.session.alive:
        return
    trial.records.append(record)
    checks = PolicyGate().run(trial)
    verification.causes += [item.code for item in checks if item.code is not None]
    verification.finish_gate(Gate.POLICY, checks, 0.0)


def name_cause(verification: Verification, trial: Trial) -> None:
    """A first call that failed over another GPU backend, or over the harness, is that before anything else."""
    events = trial.read_events()
    if "harness" in events or "protocol_error" in events:
        verification.causes.append(FailureCode.TAMPER_HARNESS)
    if any(event.startswith("foreign") for event in events):
        verification.causes.append(FailureCode.BACKEND_FOREIGN)


def collect(verification: Verification, trial: Trial) -> None:
    """Keep the evidence, whatever happened."""
    records = [*trial.records, *(fault.record for fault in trial.faults if fault.record)]
    events = sorted({event for record in records for event in record.events})
    found = {"distributions": trial.distributions, "events": events, "timing": trial.timing}
    found["phases"] = verification.phases
    verification.evidence = trial.evidence.model_copy(update=found)
    if trial.faults:
        verification.error, verification.traceback = trial.faults[0].message, trial.faults[0].traceback
    uninterpretable = [text for record in records for text in record.uninterpretable]
    if uninterpretable:
        verification.lost = FailureCode.INFRA_EVIDENCE_LOST
        verification.error = f"This environment cannot interpret the kernel; it needs a GPU. {uninterpretable[0]}"
    # What was printed last is still on its way.
    trial.session.candidate_process.end_output()
    verification.output = clean_text(trial.session.output())
