"""Gate 0: the file loads, constructs with the reference's state, and answers a first call."""

from __future__ import annotations

import secrets

from verifier.faults import CandidateFault
from verifier.trial import Trial, check
from verifier.verdict import Check, Gate


class IntakeGate:
    gate = Gate.INTAKE

    def run(self, trial: Trial) -> list[Check]:
        """Load, construct and call once. The first fault ends the gate and is kept in the trial."""
        steps = (
            ("load", "the file is imported and defines ModelNew", self.load),
            ("construct", "ModelNew has the reference's arguments, parameters and buffers", self.construct),
            ("first_call", "the first forward call ends and returns the right structure", self.call_once),
        )
        checks: list[Check] = []
        for name, label, step in steps:
            try:
                observed = step(trial)
            except CandidateFault as fault:
                trial.faults.append(fault)
                checks.append(check(name, label, passed=False, code=fault.code, observed=fault.message[:300]))
                break
            checks.append(check(name, label, passed=True, observed=observed))
        return checks

    @staticmethod
    def load(trial: Trial) -> str:
        trial.session.load()
        trial.pass_phase("load")
        return "imported"

    @staticmethod
    def construct(trial: Trial) -> str:
        trial.state = trial.reference.prepare(trial.dims, secrets.randbits(62), keep=True)
        trial.session.construct(0, trial.modules.get_init_inputs(trial.dims), trial.state)
        trial.model_state = trial.session.model_state
        trial.pass_phase("construct")
        return f"parameters and buffers: {len(trial.state)}"

    @staticmethod
    def call_once(trial: Trial) -> str:
        visible = trial.task.specification.visible_distributions[0]
        sample = trial.place(visible.name)
        trial.pass_phase("first inputs and oracle")
        trial.call(sample, first=True)
        trial.pass_phase("first call")
        trial.nominal = sample
        # Machine code is made in its box while the next gates call.
        trial.code.submit(trial.session.list_kernels())
        _, operations = trial.reference.run(sample.inputs)
        trial.reference_operations = sum(operations.values())
        trial.remember(sample)
        trial.pass_phase("first run of the reference")
        return ", ".join(f"{dtype}{shape}" for shape, dtype in trial.output_types)
