"""Gate 3: reference precision, decided by machine code; no graph capture, no foreign backend, no tampering."""

from __future__ import annotations

import re

from verifier.evidence.packing import find_parts
from verifier.evidence.sass import MachineCode, read_machine_code
from verifier.faults import CandidateFault, InfrastructureFault
from verifier.oracle import compare_all
from verifier.session import Ablation, KernelText, Mode
from verifier.trial import Trial, check, check_absent
from verifier.verdict import Check, FailureCode, Gate, MachineCodeRecord, rank_failures

_ASSIGNMENT = re.compile(r"^\s*(%[\w$.\-]+) = arith\.(truncf|extf|subf) ([^:]*)", re.MULTILINE)
_VALUE = re.compile(r"%[\w$.\-]+")
_BELOW_HALF = re.compile(r"float8|argument b?f8|bfloat16|argument bf16|8-bit")
# Bits of a word that holds one number of the task's.
SIGNIFICANT = {"fp32": 32, "fp16": 16}
# Every parameter of a kernel.
ANY_PLACE = range(1_000)
# Timed calls with inputs elsewhere: a file may choose a kernel by whether memory is poisoned.
MOVED_CALLS = 3
_SPLIT_PRODUCT = re.compile(r"inputPrecision = (?:tf32x3|bf16x\d)")


def splits_values(text: str) -> bool:
    """Return whether IR computes x - float(half(x)): the low part that an emulation of fp32 needs for its products."""
    narrowed: set[str] = set()
    widened: set[str] = set()
    for result, operation, operands in _ASSIGNMENT.findall(text):
        used = set(_VALUE.findall(operands))
        if operation == "truncf":
            narrowed.add(result)
        elif operation == "extf" and used & narrowed:
            widened.add(result)
        elif operation == "subf" and used & widened:
            return True
    return False


def name_precision_loss(code: MachineCode, text: str) -> FailureCode | None:
    """Return the code of what a kernel's machine code and IR show, or None when it keeps the precision."""
    if code.tensor_core:
        if _SPLIT_PRODUCT.search(text) or splits_values(text):
            return FailureCode.PREC_EMULATION
        if any(".TF32" in opcode for opcode in code.tensor_core):
            return FailureCode.PREC_TF32
        return FailureCode.PREC_DOWNCAST
    return FailureCode.PREC_DOWNCAST if code.narrowing else None


def takes_floats(trial: Trial) -> bool:
    """Return whether a task has numbers that could be kept in fewer bits: counts of integers are as wide as they need to be."""
    return any(item.dtype.startswith("float") for item in trial.task.specification.inputs) or any(
        value.is_floating_point() for value in trial.state.values()
    )


def follows_inputs(trial: Trial, digests: list[str]) -> bool:
    """Return whether results stay right when some kernels get the inputs at other addresses.

    Where a kernel takes words apart that it reaches from an input, they are that input's, and not what lies beside it.
    """
    if not trial.session.alive or trial.nominal is None:
        return True
    modes: list[Mode] = ["checked"]
    if trial.environment.timed:
        modes += [trial.task.specification.timing_mode] * MOVED_CALLS
    sample = trial.place(trial.nominal.distribution)
    ablation = Ablation(moved=digests)
    try:
        for mode in modes:
            result = trial.session.call(0, sample.placed, trial.output_types, mode=mode, ablate=ablation)
            if not compare_all(result.outputs, sample.oracle, trial.task.specification.tolerance).passed:
                return False
            trial.session.drop([place["handle"] for place in result.places])
    except CandidateFault as fault:
        trial.faults.append(fault)
        return False
    return True


def name_unread(error: str) -> FailureCode:
    """Return the code of a kernel whose machine code could not be had."""
    if "signal 14" in error or "MiB of text" in error:
        return FailureCode.ART_COMPILE_TIMEOUT
    # The submission's process compiled the same text before it was launched.
    return FailureCode.TAMPER_HARNESS


class PolicyGate:
    gate = Gate.POLICY

    def run(self, trial: Trial) -> list[Check]:
        """Read the machine code of every kernel that ran in any call, then the device's log."""
        launched = {digest for record in trial.list_all_records() for digest in record.kernels}
        kernels = [kernel for kernel in trial.session.list_kernels() if kernel.digest in launched]
        checks = self.check_machine_code(trial, kernels)
        checks += [
            self.check_narrowing(trial),
            self.check_packing(trial, kernels),
            self.check_flags(trial),
            self.check_graph(trial),
            self.check_foreign(trial),
            self.check_late_work(trial),
            self.check_tampering(trial),
        ]
        return checks

    def check_machine_code(self, trial: Trial, kernels: list[KernelText]) -> list[Check]:
        device, dtype = trial.environment.device, trial.task.specification.dtype
        capability = device.compute_capability
        records, losses = [], []
        for kernel, result in zip(kernels, trial.code.collect(kernels), strict=True):
            base = {"name": kernel.name, "digest": kernel.digest, "architecture": f"sm_{capability}"}
            if "error" in result:
                losses.append((name_unread(result["error"]), kernel.name))
                records.append(MachineCodeRecord(**base, error=result["error"][:500]))
                continue
            code = read_machine_code(result["sass"], dtype)
            if not code.instructions:
                raise InfrastructureFault(f"{kernel.name}: no machine code")
            if result["shared"] > device.shared_bytes_per_block:
                losses.append((FailureCode.ART_COMPILE_ERROR, kernel.name))
            loss = name_precision_loss(code, kernel.text)
            if loss is not None:
                losses.append((loss, kernel.name))
            records.append(
                MachineCodeRecord(
                    **base,
                    registers=result["registers"],
                    spill_bytes=result["spilled"],
                    shared_bytes=result["shared"],
                    shared_limit_bytes=device.shared_bytes_per_block,
                    instructions=code.instructions,
                    tensor_core=dict(code.tensor_core),
                    narrowing=dict(code.narrowing),
                    offending_lines=code.lines,
                )
            )
        trial.evidence = trial.evidence.model_copy(update={"machine_code": records})
        label = f"machine code of every kernel that ran keeps {dtype} and fits the GPU (kernels: {len(kernels)}, sm_{capability})"
        detail = ", ".join(sorted({name for _, name in losses}))
        codes = rank_failures([loss for loss, _ in losses])
        extra = [
            check(f"machine_code_{loss.lower()}", label, passed=False, code=loss, observed=detail) for loss in codes[1:]
        ]
        return [
            check(
                "machine_code",
                label,
                passed=not losses,
                code=codes[0] if codes else None,
                observed=len({name for _, name in losses}),
                allowed=0,
                unit="kernels below",
                detail=detail,
            ),
            *extra,
        ]

    @staticmethod
    def check_narrowing(trial: Trial) -> Check:
        """Library operators and kernel arguments may not carry narrower floats than the task's."""
        narrow: set[str] = set()
        for record in trial.list_all_records():
            narrow |= set(record.narrowing)
            narrow |= {
                f"kernel argument {dtype}" for usage in record.kernels.values() for dtype in usage["narrow_arguments"]
            }
        if trial.task.specification.dtype == "fp16":
            narrow = {text for text in narrow if _BELOW_HALF.search(text)}
        label = "tensors keep the task's precision"
        return check(
            "narrowing",
            label,
            passed=not narrow,
            code=FailureCode.PREC_DOWNCAST,
            observed=", ".join(sorted(narrow)[:5]) or "none",
            allowed="none",
        )

    @staticmethod
    def check_packing(trial: Trial, kernels: list[KernelText]) -> Check:
        """Numbers may not be kept as narrower integers, nor several of them in one word."""
        width = SIGNIFICANT[trial.task.specification.dtype]
        found, doubtful = set(), []
        for kernel in kernels if takes_floats(trial) else ():
            if parts := find_parts(kernel.text, kernel.own_words, width):
                found.add(f"{kernel.name}: {parts[0]} bits")
            elif find_parts(kernel.text, ANY_PLACE, width):
                doubtful.append(kernel)
        if doubtful and not follows_inputs(trial, [kernel.digest for kernel in doubtful]):
            found |= {f"{kernel.name}: words that no parameter points to" for kernel in doubtful}
        return check(
            "packing",
            "no numbers are made of parts of words that the submission itself keeps",
            passed=not found,
            code=FailureCode.PREC_DOWNCAST,
            observed=", ".join(sorted(found)[:5]) or "none",
            allowed="none",
        )

    @staticmethod
    def check_flags(trial: Trial) -> Check:
        flags = set(trial.session.flags) | {flag for record in trial.records for flag in record.flags}
        label = "switches that permit reduced precision stay off"
        return check(
            "flags",
            label,
            passed=not flags,
            code=FailureCode.PREC_FLAG_OPTIN,
            observed=", ".join(sorted(flags)[:5]) or "all off",
            allowed="all off",
        )

    @staticmethod
    def check_graph(trial: Trial) -> Check:
        label = "no CUDA graph is captured or replayed"
        used = trial.read_events().get("graph", 0)
        return check_absent("graph_capture", label, FailureCode.GRAPH_CAPTURE, used, "uses")

    @staticmethod
    def check_foreign(trial: Trial) -> Check:
        events = trial.read_events()
        # Looking for a package that is not there uses nothing; a file that cannot do without it does not load.
        foreign = sorted(
            event for event in events if event.startswith("foreign") and not event.startswith("foreign import")
        )
        label = "no other GPU backend is used"
        return check(
            "foreign_backend",
            label,
            passed=not foreign,
            code=FailureCode.BACKEND_FOREIGN,
            observed=", ".join(foreign[:5]) or "none",
            allowed="none",
        )

    @staticmethod
    def check_late_work(trial: Trial) -> Check:
        label = "no work is asked for outside a call"
        late = trial.read_events().get("late_work", 0)
        return check_absent("late_work", label, FailureCode.TIMING_SIDESTEP, late, "requests")

    @staticmethod
    def check_tampering(trial: Trial) -> Check:
        label = "the harness is left alone, and its channels carry only what was asked for"
        events = trial.read_events()
        broken = events.get("protocol_error", 0) + events.get("harness", 0)
        return check_absent("channels", label, FailureCode.TAMPER_HARNESS, broken, "breaches")
