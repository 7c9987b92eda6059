"""Gate 1: a genuine @triton.jit kernel of the submitted file does real work in every graded call."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TypeVar

import torch

from verifier.candidate.channel import Message
from verifier.faults import CandidateFault
from verifier.limits import (
    FREE_TRANSFER,
    MAXIMUM_ACTIVITIES,
    MAXIMUM_FREE_READBACK,
    MAXIMUM_READBACK,
    MAXIMUM_UPLOAD,
    MINIMUM_ABLATION_SHARE,
    PROFILED_SLOWDOWN,
)
from verifier.oracle import compare_all
from verifier.session import Ablation, CallRecord, KernelText
from verifier.task import Tolerance
from verifier.trial import Sample, Trial, check, check_absent
from verifier.verdict import ActivityRecord, Check, FailureCode, Gate, KernelRecord, LibraryRecord

Figure = TypeVar("Figure", int, float)


class StructuralGate:
    gate = Gate.STRUCTURAL

    def run(self, trial: Trial) -> list[Check]:
        """Judge the device's record of every call, then ablate on one more input."""
        kernels = {kernel.digest: kernel for kernel in trial.session.list_kernels()}
        own = {digest for digest, kernel in kernels.items() if trial.is_own(kernel)}
        nominal = trial.records[0]
        launches = min(
            sum(usage["launches"] for digest, usage in record.kernels.items() if digest in own)
            for record in trial.records
        )
        label = "a @triton.jit kernel of this file is launched in every graded call"
        checks = [
            check(
                "own_launches",
                label,
                passed=launches > 0,
                code=FailureCode.STRUCT_NO_TRITON,
                observed=launches,
                allowed=1,
                bound="at least",
                unit="launches a call",
            )
        ]
        checks.append(self.check_compile(trial))
        shares: dict[str, float] = {}
        if launches > 0:
            checks += self.check_work(trial, own)
            checks.append(self.check_share(trial, own))
            checks += self.check_ablation(trial, own, shares)
        self.record_evidence(trial, nominal, kernels, shares)
        return checks

    @staticmethod
    def check_compile(trial: Trial) -> Check:
        label = "torch.compile is not used"
        used = trial.read_events().get("compile", 0)
        return check_absent("compile_fallback", label, FailureCode.STRUCT_COMPILE_FALLBACK, used, "uses")

    def check_work(self, trial: Trial, own: set[str]) -> list[Check]:
        """Who did the work: own kernels, library operators, or the host.

        The third-worst call counts: each of the two instances may lay its weights out once, in its first call.
        """
        structure = trial.task.specification.structure
        library = find_third_largest([count_library(record, own) for record in trial.records])
        offload = library / max(1, trial.reference_operations)
        inputs = sum(item.numel() for item in trial.nominal.inputs.values()) if trial.nominal else 0
        outputs = sum(item.numel() for item in trial.nominal.oracle) if trial.nominal else 0
        readback = find_third_largest([record.downloaded for record in trial.records])
        upload = find_third_largest([record.uploaded for record in trial.records])
        # A few scalars are free; an input of few elements as a whole is not.
        free = min(FREE_TRANSFER, int(inputs * MAXIMUM_FREE_READBACK))
        allowed_readback = max(free, int(inputs * MAXIMUM_READBACK))
        allowed_upload = max(FREE_TRANSFER, int(outputs * MAXIMUM_UPLOAD))
        code = FailureCode.STRUCT_LIBRARY_OFFLOAD
        return [
            check(
                "library_offload",
                "library operators do little of what the reference does with them",
                passed=offload <= structure.maximum_offload,
                code=code,
                observed=round(offload, 4),
                allowed=structure.maximum_offload,
                bound="at most",
                unit="of the reference's operations",
            ),
            check(
                "readback",
                "the host reads little of the data back",
                passed=readback <= allowed_readback,
                code=code,
                observed=readback,
                allowed=allowed_readback,
                bound="at most",
                unit="elements a call",
            ),
            check(
                "upload",
                "the host uploads little data",
                passed=upload <= allowed_upload,
                code=code,
                observed=upload,
                allowed=allowed_upload,
                bound="at most",
                unit="elements a call",
            ),
        ]

    def check_share(self, trial: Trial, own: set[str]) -> Check:
        """What part of the work own kernels do: of the GPU's time where there is one, else of all operations."""
        timed = trial.environment.timed
        share = (
            self.measure_share(trial, own)
            if timed
            else -find_third_largest([-count_share(record, own) for record in trial.records])
        )
        allowed = trial.task.specification.structure.minimum_own_share
        return check(
            "own_share",
            "own kernels do their share of the GPU's time" if timed else "own kernels do their share of all operations",
            passed=share >= allowed,
            code=FailureCode.STRUCT_LIBRARY_OFFLOAD,
            observed=round(share, 4),
            allowed=allowed,
            bound="at least",
            unit="share",
        )

    @staticmethod
    def measure_share(trial: Trial, own: set[str]) -> float:
        """Return the worst share of the GPU's time in all profiled calls; the evidence is the first timed distribution's."""
        timed = trial.task.specification.distributions[0].name
        if not trial.profiled:
            trial.profiled.append(trial.call_measured(timed, "profiled", verify=False)[0])
        shares = []
        for record in trial.profiled:
            activities = list_activities(record.measured["profile"], own)
            shares.append(sum(item.share for item in activities if item.own))
            if record.measured.get("distribution", timed) != timed:
                continue
            trial.evidence = trial.evidence.model_copy(update={"activities": activities[:MAXIMUM_ACTIVITIES]})
            if trial.timing is not None:
                # Time that own kernels take under the profiler alone is not work.
                others = sum(item.milliseconds for item in activities if not item.own)
                shares.append(bound_share(others, trial.timing.sides["candidate"].mean))
        return min(shares)

    def check_ablation(self, trial: Trial, own: set[str], shares: dict[str, float]) -> list[Check]:
        """Replace what own kernels write by finite noise: all of them together, then one by one.

        Floats come first: integers may be places that have to agree with each other, and noise in them ends the device.
        """
        label = "replacing what own kernels write by noise changes the result"
        if not trial.session.alive or trial.nominal is None:
            return [check("ablation", label, passed=None, detail="the process had ended; ablation was not possible")]
        sample = trial.place(trial.nominal.distribution)
        try:
            called = trial.call(sample)
            base = called.outputs
            # This sample's kernels: a file may choose, or specialise, by its data.
            used = [digest for digest in called.record.kernels if digest in own]
            together, replaced = self.ablate(trial, sample, base, Ablation(used))
            integers = together < MINIMUM_ABLATION_SHARE
            if integers:
                together, replaced = self.ablate(trial, sample, base, Ablation(used, integers))
            if len(used) == 1 and replaced:
                shares[used[0]] = together
            for digest in used if len(used) > 1 else ():
                share, replaced = self.ablate(trial, sample, base, Ablation([digest], integers))
                if replaced:
                    shares[digest] = share
        except CandidateFault as fault:
            trial.faults.append(fault)
            return [check("ablation", label, passed=False, code=fault.code, observed=fault.message[:300])]
        passed = together >= MINIMUM_ABLATION_SHARE
        return [
            check(
                "ablation",
                label,
                passed=passed,
                code=FailureCode.STRUCT_DECOY,
                observed=round(together, 4),
                allowed=MINIMUM_ABLATION_SHARE,
                bound="at least",
                unit="of the output's elements",
            )
        ]

    @staticmethod
    def ablate(trial: Trial, sample: Sample, base: list[torch.Tensor], ablation: Ablation) -> tuple[float, bool]:
        """Return the share of output elements that leave the error budget, and whether any noise was put anywhere.

        The share is of all elements or of those that are not zero. A call that fails counts as 1.
        """
        try:
            result = trial.call(sample, ablate=ablation)
        except CandidateFault:
            if not trial.session.alive:
                raise
            return 1.0, True
        changed = measure_change(result.outputs, base, trial.task.specification.tolerance)
        return changed, result.record.replaced > 0

    @staticmethod
    def record_evidence(
        trial: Trial, nominal: CallRecord, kernels: dict[str, KernelText], shares: dict[str, float]
    ) -> None:
        """Keep the launch record of the first graded call."""
        recorded = [
            KernelRecord(
                name=kernels[digest].name,
                digest=digest,
                launches=usage["launches"],
                programs=usage["programs"],
                grids=[tuple(grid) for grid in usage["grids"]],
                options=kernels[digest].options,
                operations=usage["operations"],
                own=trial.is_own(kernels[digest]),
                ablation_share=None if digest not in shares else round(shares[digest], 4),
            )
            for digest, usage in nominal.kernels.items()
            if digest in kernels
        ]
        library = [
            LibraryRecord(name=name, calls=nominal.library_calls.get(name, 0), operations=operations)
            for name, operations in sorted(nominal.library_operations.items(), key=lambda item: -item[1])
            if operations
        ]
        trial.evidence = trial.evidence.model_copy(update={"kernels": recorded, "library": library[:50]})


def find_third_largest(figures: Sequence[Figure]) -> Figure:
    """Return the third-largest figure of all calls, or the smallest of fewer."""
    return sorted(figures, reverse=True)[:3][-1]


def count_library(record: CallRecord, own: set[str]) -> int:
    """Return the operations of one call that were not an own kernel's."""
    # Kernels of other files did the submission's work for it, as a library would.
    others = sum(usage["operations"] for digest, usage in record.kernels.items() if digest not in own)
    return sum(record.library_operations.values()) + others


def count_share(record: CallRecord, own: set[str]) -> float:
    """Return the share of one call's operations that own kernels did."""
    mine = sum(usage["operations"] for digest, usage in record.kernels.items() if digest in own)
    return mine / max(1, mine + count_library(record, own))


def bound_share(others: float, timed: float) -> float:
    """Return the largest share that own kernels can have had of a timed call, given what others took when profiled.

    Both in milliseconds. A profiled call may run a little slower than a timed one.
    """
    longest = timed * PROFILED_SLOWDOWN
    return max(0.0, longest - others) / longest


def measure_change(outputs: list[torch.Tensor], base: list[torch.Tensor], tolerance: Tolerance) -> float:
    """Return the share of elements of `base` that `outputs` changed: of all, or of those that are not zero, the larger."""
    # Where most results are zero, noise leaves many of them zero, whoever made them.
    filled = [value != 0 for value in base]
    chosen = [output[mask] for output, mask in zip(outputs, filled, strict=True)]
    expected = tuple(value[mask] for value, mask in zip(base, filled, strict=True))
    comparisons = compare_all(outputs, tuple(base), tolerance), compare_all(chosen, expected, tolerance)
    return max(item.wrong / max(1, item.elements) for item in comparisons)


def list_activities(profile: list[Message], own: set[str]) -> list[ActivityRecord]:
    """Return what ran on the GPU in a profiled call, by name, the longest first."""
    launches: dict[tuple[str, bool], int] = defaultdict(int)
    microseconds: dict[tuple[str, bool], float] = defaultdict(float)
    for activity in profile:
        key = activity["name"], activity["label"].removeprefix("own ") in own
        launches[key] += 1
        microseconds[key] += activity["microseconds"]
    total = sum(microseconds.values())
    return [
        ActivityRecord(
            name=key[0],
            own=key[1],
            launches=launches[key],
            milliseconds=round(time / 1e3, 6),
            share=time / total if total else 0.0,
        )
        for key, time in sorted(microseconds.items(), key=lambda item: -item[1])
    ]
