"""Gate 2: right on secret inputs of every distribution, fresh each call, following what it is given."""

from __future__ import annotations

import secrets
from collections.abc import Callable

import torch

from verifier.faults import CandidateFault
from verifier.limits import CLEAR_CHANGE, LATER_CALLS, SITE_ATTEMPTS, WARM_CALLS
from verifier.oracle import compare_all, has_same_bits
from verifier.session import Tensors
from verifier.trial import Sample, Trial, check
from verifier.verdict import Check, DistributionRecord, FailureCode, Gate, rank_failures

VALUE_CODES = (FailureCode.CORR_VALUE, FailureCode.CORR_NONFINITE)


class CorrectnessGate:
    gate = Gate.CORRECTNESS

    def run(self, trial: Trial) -> list[Check]:
        """Make every check that the session survives; a fault is one failed check."""
        steps: list[tuple[str, str, Callable[[Trial], list[Check]]]] = [
            ("distributions", "five secret inputs over the distributions", self.check_distributions),
            ("same_address", "new values at the same address are followed", self.check_same_address),
            ("single_site", "a change of one input element is followed", self.check_single_site),
            ("repetition", "the same input gives the same output", self.check_repetition),
            ("state", "another set of parameters is followed", self.check_state),
            ("later_calls", "later calls are right as well", self.check_later_calls),
            ("freshness", "every call returns fresh storage", self.check_freshness),
            ("immutability", "inputs and parameters are left untouched", self.check_immutability),
        ]
        checks: list[Check] = []
        for name, label, step in steps:
            if not trial.session.alive:
                break
            try:
                checks += step(trial)
            except CandidateFault as fault:
                trial.faults.append(fault)
                checks.append(check(name, label, passed=False, code=fault.code, observed=fault.message[:300]))
        return checks

    def check_distributions(self, trial: Trial) -> list[Check]:
        """One secret seed a distribution; the visible one was the first call."""
        assert trial.nominal is not None
        failing: list[tuple[Sample, FailureCode]] = []
        for distribution in trial.task.specification.distributions:
            sample = (
                trial.nominal if distribution.name == trial.nominal.distribution else trial.place(distribution.name)
            )
            if sample is not trial.nominal:
                trial.call(sample)
            if not self.record_distribution(trial, sample):
                failing.append((sample, self.classify(trial, sample)))
            trial.remember(sample)
            trial.retire(sample)
        if trial.environment.timed and trial.rounds:
            # From here on the reference is not needed for a while.
            trial.reference.warm_up(trial.task.specification.distributions[0].name)
            assert trial.nominal is not None
            assert trial.nominal.result is not None
            trial.measure_judging(trial.nominal.inputs, trial.nominal.result.outputs)
        return [self.summarise(trial, failing)]

    @staticmethod
    def record_distribution(trial: Trial, sample: Sample) -> bool:
        """Add a distribution's errors to the evidence and return whether it passed."""
        comparison = sample.comparison
        assert comparison is not None
        eager, _ = trial.reference.run(sample.inputs)
        reference = compare_all(eager, sample.oracle, trial.task.specification.tolerance)
        trial.distributions.append(
            DistributionRecord(
                distribution=sample.distribution,
                visible=sample.visible,
                passed=comparison.passed,
                largest_error=comparison.largest_error,
                budget_ratio=finite(comparison.budget_ratio),
                reference_ratio=finite(reference.budget_ratio),
                wrong_elements=comparison.wrong,
                elements=comparison.elements,
                worst_index=list(comparison.worst_index),
                nonfinite_mismatches=comparison.nonfinite_mismatches,
            )
        )
        return comparison.passed

    @staticmethod
    def classify(trial: Trial, sample: Sample) -> FailureCode:
        """Return the code of a wrong output: stale or unwritten, else what kind of value is wrong, and where."""
        assert sample.comparison is not None
        sound = all(item.passed for item in trial.distributions if item.visible)
        if not sample.visible and sound:
            return trial.explain_wrong(sample, FailureCode.CORR_HIDDEN_DIST)
        only_nonfinite = sample.comparison.nonfinite_mismatches == sample.comparison.wrong
        return trial.explain_wrong(sample, FailureCode.CORR_NONFINITE if only_nonfinite else FailureCode.CORR_VALUE)

    @staticmethod
    def summarise(trial: Trial, failing: list[tuple[Sample, FailureCode]]) -> Check:
        total = len(trial.distributions)
        worst = max(
            trial.distributions, key=lambda item: float("inf") if item.budget_ratio is None else item.budget_ratio
        )
        detail = f"largest error over the error budget: {format_ratio(worst.budget_ratio)} ({worst.distribution})"
        label = "every element within the error budget, on secret inputs of every distribution"
        codes = rank_failures([code for _, code in failing])
        return check(
            "distributions",
            label,
            passed=not failing,
            code=codes[0] if codes else None,
            observed=f"{total - len(failing)} of {total}",
            allowed=f"{total} of {total}",
            detail=detail,
        )

    def check_same_address(self, trial: Trial) -> list[Check]:
        """After warm calls on the same objects, only the bytes behind them change."""
        assert trial.nominal is not None
        sample = trial.place(trial.nominal.distribution)
        for _ in range(WARM_CALLS):
            trial.call(sample)
        trial.remember(sample)
        followed = 0
        codes: list[FailureCode] = []
        names = [trial.nominal.distribution, trial.pick_hidden()]
        for name in names:
            sample = trial.replace(sample, trial.draw(name), name)
            trial.call(sample)
            assert sample.comparison is not None
            if sample.comparison.passed:
                followed += 1
            else:
                codes.append(self.classify(trial, sample))
            trial.remember(sample)
        trial.retire(sample)
        label = "new values at the same address are followed"
        return [
            check(
                "same_address",
                label,
                passed=not codes,
                code=rank_failures(codes)[0] if codes else None,
                observed=followed,
                allowed=len(names),
                unit="changes followed",
            )
        ]

    def check_single_site(self, trial: Trial) -> list[Check]:
        """Change one element where the oracle clearly moves; the output must move with it."""
        assert trial.nominal is not None
        label = "a change of one input element is followed"
        sample = trial.place(trial.nominal.distribution)
        trial.call(sample)
        trial.remember(sample)
        changed = find_single_change(trial, sample)
        if changed is None:
            trial.retire(sample)
            return [
                check(
                    "single_site", label, passed=None, detail="no single element moves the oracle clearly on this input"
                )
            ]
        sample = trial.replace(sample, changed)
        trial.call(sample)
        assert sample.comparison is not None
        code = None if sample.comparison.passed else self.classify(trial, sample)
        ratio = finite(sample.comparison.budget_ratio)
        trial.retire(sample)
        return [
            check(
                "single_site",
                label,
                passed=sample.comparison.passed,
                code=code,
                observed=ratio,
                allowed=1.0,
                bound="at most",
                unit="error budgets",
            )
        ]

    @staticmethod
    def check_repetition(trial: Trial) -> list[Check]:
        """The same input three times: bitwise agreement is recorded, the error budget decides."""
        assert trial.nominal is not None
        sample = trial.place(trial.nominal.distribution)
        results = [trial.call(sample) for _ in range(3)]
        trial.remember(sample)
        trial.retire(sample)
        first = tuple(results[0].outputs)
        comparisons = [compare_all(result.outputs, first, trial.task.specification.tolerance) for result in results[1:]]
        bitwise = all(has_same_bits(result.outputs, results[0].outputs) for result in results[1:])
        worst = max(item.budget_ratio for item in comparisons)
        passed = all(item.passed for item in comparisons)
        detail = "bitwise equal" if bitwise else "not bitwise equal"
        label = "the same input gives the same output, within the error budget"
        return [
            check(
                "repetition",
                label,
                passed=passed,
                code=FailureCode.CORR_NONDETERMINISTIC,
                observed=finite(worst),
                allowed=1.0,
                bound="at most",
                unit="error budgets",
                detail=detail,
            )
        ]

    @staticmethod
    def check_state(trial: Trial) -> list[Check]:
        """A second instance with other parameters, on an input that the first one has answered."""
        label = "another set of parameters is followed"
        if not trial.state:
            return []
        assert trial.nominal is not None
        first_state = trial.state
        trial.state = trial.reference.prepare(trial.dims, secrets.randbits(62), keep=False)
        try:
            trial.session.construct(1, trial.modules.get_init_inputs(trial.dims), trial.state)
            sample = Sample(
                trial.nominal.distribution,
                trial.nominal.visible,
                trial.nominal.inputs,
                trial.nominal.placed,
                trial.compute_oracle(trial.nominal.inputs),
            )
            trial.call(sample, instance=1)
            assert sample.comparison is not None
            ratio = finite(sample.comparison.budget_ratio)
            sound = all(item.passed for item in trial.distributions if item.visible)
            code = FailureCode.CORR_PARAM_IGNORED if sound else FailureCode.CORR_VALUE
            return [
                check(
                    "state",
                    label,
                    passed=sample.comparison.passed,
                    code=code,
                    observed=ratio,
                    allowed=1.0,
                    bound="at most",
                    unit="error budgets",
                )
            ]
        finally:
            trial.state = first_state

    def check_later_calls(self, trial: Trial) -> list[Check]:
        """More calls on fresh inputs, half at new addresses: nothing may change after the checks above."""
        assert trial.nominal is not None
        sample = trial.place(trial.nominal.distribution)
        failing: list[FailureCode] = []
        for number in range(LATER_CALLS):
            name = trial.nominal.distribution if number % 3 else trial.pick_hidden()
            inputs = trial.draw(name)
            if secrets.randbits(1):
                sample = trial.replace(sample, inputs, name)
            else:
                trial.retire(sample)
                sample = trial.place(name, inputs)
            trial.call(sample)
            assert sample.comparison is not None
            if not sample.comparison.passed:
                code = self.classify(trial, sample)
                # The visible distribution was right before: what changed is the submission.
                changed = code in VALUE_CODES and all(item.passed for item in trial.distributions if item.visible)
                failing.append(FailureCode.STALE_TIMED_OUTPUT if changed else code)
            trial.remember(sample)
        trial.retire(sample)
        label = "later calls on fresh inputs are right as well"
        return [
            check(
                "later_calls",
                label,
                passed=not failing,
                code=rank_failures(failing)[0] if failing else None,
                observed=LATER_CALLS - len(failing),
                allowed=LATER_CALLS,
                unit="calls right",
            )
        ]

    @staticmethod
    def check_freshness(trial: Trial) -> list[Check]:
        """No two results of all calls so far share storage, with each other, the inputs or the state, or have changed."""
        freshness = trial.freshness
        freshness.finish()
        shared, changed = freshness.shared, freshness.changed
        label = "each call returns storage of its own, and later calls leave it alone"
        return [
            check(
                "freshness",
                label,
                passed=not shared and not changed,
                code=FailureCode.STALE_STORAGE_REUSED,
                observed=shared,
                allowed=0,
                unit="shared storages",
                detail=f"{changed} of {freshness.results} results changed after their call" if changed else "",
            )
        ]

    @staticmethod
    def check_immutability(trial: Trial) -> list[Check]:
        """After every call its inputs, and at the end the parameters, hold the bytes that the judge gave them."""
        changed = sorted(trial.mutated) + trial.session.list_changed_state(trial.model_state, trial.state)
        label = "inputs and parameters are left untouched"
        return [
            check(
                "immutability",
                label,
                passed=not changed,
                code=FailureCode.CORR_INPUT_MUTATED,
                observed=", ".join(changed) or "none changed",
                allowed="none changed",
            )
        ]


def finite(value: float) -> float | None:
    """Return a figure for the verdict: None stands for infinite."""
    return value if value < float("inf") else None


def format_ratio(value: float | None) -> str:
    return "infinite" if value is None else f"{value:.3g}"


def change_element(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Return a copy with one element changed: a float to a whole number far out, an integer to one that stands elsewhere.

    Where sums are exact because all values lie on a grid, a whole number keeps them so.
    """
    value = tensor.clone()
    flat = value.reshape(-1)
    position, other = torch.randint(value.numel(), (2,), generator=generator).tolist()
    spread = flat.std(correction=0) if value.is_floating_point() else 0
    far = (flat.abs().max() + spread + 1.0).ceil() if value.is_floating_point() else flat[other].clone()
    flat[position] = far
    return value


def find_single_change(trial: Trial, sample: Sample) -> Tensors | None:
    """Return the inputs with one element changed so that the oracle moves clearly, or None."""
    generator = torch.Generator().manual_seed(secrets.randbits(62))
    filled = [name for name, value in sample.inputs.items() if value.numel()]
    # Beside floats, integers are places whose order may matter; alone they are what is looked up.
    names = [name for name in filled if sample.inputs[name].is_floating_point()] or filled
    for _ in range(SITE_ATTEMPTS):
        name = names[int(torch.randint(len(names), (1,), generator=generator))]
        changed = {**sample.inputs, name: change_element(sample.inputs[name], generator)}
        oracle = trial.compute_oracle(changed)
        moved = compare_all(list(oracle), sample.oracle, trial.task.specification.tolerance)
        if moved.budget_ratio > CLEAR_CHANGE:
            return changed
    return None
