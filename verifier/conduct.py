"""Takes one submission through the gates and collects the evidence. Needs PyTorch; the judge does not."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import torch

from verifier.boxes import Boxes
from verifier.candidate.slab import Slab, pin
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


def conduct(verification: Verification, boxes: Boxes, slab: Slab) -> None:
    """Run the gates of `verification` in `boxes`. Raises InfrastructureFault."""
    task, environment = verification.task, verification.environment
    where = torch.device("cuda", 0) if environment.timed else torch.device("cpu")
    if environment.timed:
        pin(slab.bytes)
    reference = Reference(task, environment, Slab.create(slab.size, pinned=environment.timed), where)
    try:
        session = Session(boxes, slab, where)
        code = (
            LoadedCode(session)
            if environment.timed
            else Compiler(boxes.compiler, environment.device.compute_capability)
        )
        modules = load_task_modules(task)
        session.wait_until_ready()
        freshness = Freshness(session, int(environment.device.memory_bytes * HELD_SHARE))
        trial = Trial(task, verification.source, environment, modules, session, reference, code, freshness)
        trial.gpu, trial.target, trial.report = verification.gpu, verification.target, verification.progress
        try:
            run_gates(verification, trial)
        finally:
            collect(verification, trial)
    finally:
        reference.close()


def run_gates(verification: Verification, trial: Trial) -> None:
    """Run the gates in order; without an accepted first call nothing further can be judged."""
    for make in ORDER:
        gate = make()
        if gate.gate is Gate.PERFORMANCE and not (trial.environment.timed and trial.session.alive):
            continue
        verification.progress({"event": "gate", "gate": gate.gate, "state": "started"})
        started = time.monotonic()
        try:
            checks = gate.run(trial)
        except CandidateFault as fault:
            trial.faults.append(fault)
            label = "the submission lives until the gate ends"
            checks = [check("survival", label, passed=False, code=fault.code, observed=fault.message[:300])]
        except InfrastructureFault as fault:
            if gate.gate is not Gate.PERFORMANCE:
                raise
            # What the other gates find stands all the same.
            verification.lose(fault)
            continue
        verification.finish_gate(gate.gate, checks, time.monotonic() - started)
        if gate.gate is Gate.INTAKE and trial.nominal is None:
            name_cause(verification, trial)
            break


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
    verification.evidence = trial.evidence.model_copy(update=found)
    if trial.faults:
        verification.error, verification.traceback = trial.faults[0].message, trial.faults[0].traceback
    uninterpretable = [text for record in records for text in record.uninterpretable]
    if uninterpretable:
        verification.lost = FailureCode.INFRA_EVIDENCE_LOST
        verification.error = f"This environment cannot interpret the kernel; it needs a GPU. {uninterpretable[0]}"
    verification.output = clean_text(trial.session.output())
