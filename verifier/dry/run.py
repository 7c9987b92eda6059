"""A dry run: a solution in the boxes of a verification, at the timed dims, against a device that does no work."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

from verifier import sandbox
from verifier.boxes import DEVICE_LIMITS, Box, Boxes, share_memory
from verifier.bundle import check_bytes, read_file
from verifier.candidate.transfer import DTYPES
from verifier.compiler import CompileResult, LoadedCode
from verifier.dry.shapes import ShapeSlab
from verifier.environment import EnvironmentSpecification
from verifier.evidence.sass import read_machine_code
from verifier.faults import CandidateFault, InfrastructureFault
from verifier.gates.policy import name_precision_loss
from verifier.limits import choose_limits
from verifier.modules import load_task_modules
from verifier.portability import KernelPortability, TaskPortability, count_spills
from verifier.session import CallRecord, KernelText, OutputType, Session
from verifier.task import Task, TensorSpecification
from verifier.verdict import FailureCode, rank_failures

# A first call may lay weights out with kernels of its own, and a later one may not need them.
CALLS = 2
NO_SLAB = -1
# The alarm that ends a compilation which takes too long.
ALARM = "signal 14"
NEEDS_VALUES = "The solution asks for a value that is computed on the device, and a dry run computes none: "


class DryBoxes(Boxes):
    """The boxes of a verification, with a device that needs no GPU."""

    def start_device(self, lines: Sequence[Any], slab: int) -> Box:
        settings = {
            "memory_bytes": share_memory(self.environment),
            "capability": self.environment.device.compute_capability,
        }
        parts = ("candidate", "device", "dry", "gpu")
        return self.start("verifier.dry.service", parts, DEVICE_LIMITS, lines=lines, settings=settings)


def make_empty(specifications: Sequence[TensorSpecification], dims: Mapping[str, int]) -> dict[str, torch.Tensor]:
    """Return meta tensors for specified ones, by name."""
    return {
        item.name: torch.empty(item.resolve_shape(dims), dtype=DTYPES[item.dtype], device="meta")
        for item in specifications
    }


def record_calls(task: Task, session: Session, dims: Mapping[str, int]) -> list[CallRecord]:
    """Load, construct and call the solution; return what the device saw. Raises CandidateFault."""
    session.wait_until_ready()
    session.load()
    session.construct(
        0, load_task_modules(task).get_init_inputs(dims), make_empty(task.specification.list_state(dims), dims)
    )
    inputs = session.put(make_empty(task.specification.inputs, dims))
    expected: list[OutputType] = [(list(item.resolve_shape(dims)), item.dtype) for item in task.specification.outputs]
    calls = [session.call(0, inputs, expected, first=not number, read=False).record for number in range(CALLS)]
    return [*session.constructions, *calls]


def describe_kernel(
    kernel: KernelText, result: CompileResult, records: Sequence[CallRecord], dtype: str, limit: int
) -> KernelPortability:
    """Return what the compiler made of one kernel, judged against a task of `dtype` and the GPU's shared memory."""
    usages = [record.kernels[kernel.digest] for record in records if kernel.digest in record.kernels]
    grids = list(dict.fromkeys(tuple(grid) for usage in usages for grid in usage["grids"]))
    base = {
        "name": kernel.name,
        "digest": kernel.digest,
        "options": kernel.options,
        "grids": grids,
        "launches": sum(usage["launches"] for usage in usages),
        "shared_limit": limit,
    }
    if "error" in result:
        slow = ALARM in result["error"]
        refusal = FailureCode.ART_COMPILE_TIMEOUT if slow else FailureCode.ART_COMPILE_ERROR
        return KernelPortability(**base, failures=[refusal], error=result["error"][:500])
    code = read_machine_code(result["sass"], dtype)
    stores, loads = count_spills(result["sass"])
    failures = [FailureCode.ART_COMPILE_ERROR] if result["shared"] > limit else []
    loss = name_precision_loss(code, kernel.text)
    return KernelPortability(
        **base,
        registers=result["registers"],
        spill_stores=stores,
        spill_loads=loads,
        shared=result["shared"],
        instructions=code.instructions,
        # To fp32 every tensor-core instruction is one too many, so this counts them all.
        tensor_core=dict(read_machine_code(result["sass"], "fp32").tensor_core),
        narrowing=dict(code.narrowing),
        failures=[*failures, *([loss] if loss else [])],
    )


def list_kernels(
    task: Task, session: Session, records: Sequence[CallRecord], environment: EnvironmentSpecification
) -> list[KernelPortability]:
    """Return every kernel that the solution handed to the device, each configuration once."""
    kernels = list({kernel.digest: kernel for kernel in session.list_kernels()}.values())
    dtype, limit = task.specification.dtype, environment.device.shared_bytes_per_block
    results = LoadedCode(session).collect(kernels)
    return [
        describe_kernel(kernel, result, records, dtype, limit) for kernel, result in zip(kernels, results, strict=True)
    ]


def explain(fault: CandidateFault) -> str:
    """Return why a dry run ended; PyTorch's words for a value that is not there are no help to anybody."""
    return f"{NEEDS_VALUES}{fault.message}" if "meta tensor" in fault.message.lower() else fault.message


def examine_in(boxes: Boxes, task: Task, environment: EnvironmentSpecification) -> TaskPortability:
    """Take one solution through a dry run in its boxes. Raises InfrastructureFault."""
    started = time.monotonic()
    session = Session(boxes, ShapeSlab(), torch.device("meta"), choose_limits(environment))
    codes, error = [], ""
    try:
        records = record_calls(task, session, task.specification.dims.timed)
    except CandidateFault as fault:
        records = [*session.constructions, *([fault.record] if fault.record else [])]
        codes, error = [fault.code], explain(fault)
    try:
        kernels = list_kernels(task, session, records, environment)
    except CandidateFault as fault:
        raise InfrastructureFault(f"the dry run lost its record: {fault.message}") from fault
    if not codes and not any(kernel.launches for kernel in kernels):
        codes = [FailureCode.STRUCT_NO_TRITON]
    failures = rank_failures([*codes, *(code for kernel in kernels for code in kernel.failures)])
    return TaskPortability(
        task=task.id,
        slug=task.specification.slug,
        dtype=task.specification.dtype,
        ok=not failures,
        failures=failures,
        error=error,
        peak_bytes=records[-1].measured.get("peak_bytes") if records else None,
        kernels=kernels,
        seconds=round(time.monotonic() - started, 2),
    )


def examine_portability(
    task: Task, environment: EnvironmentSpecification, solution: Path | None = None
) -> TaskPortability:
    """Record and compile the launches of a solution, the certified one unless another is given.

    Raises BundleError, SandboxUnavailable or InfrastructureFault.
    """
    data = read_file(solution or task.path / "certified.py")
    check_bytes(data)
    sandbox.probe()
    with tempfile.TemporaryDirectory(prefix="kq-") as folder:
        file = Path(folder) / "solution.py"
        file.write_bytes(data)
        # The boxed process runs as another user and must be able to read its one file.
        Path(folder).chmod(0o711)
        file.chmod(0o644)
        with DryBoxes(file, environment, NO_SLAB) as boxes:
            return examine_in(boxes, task, environment)


def examine_all(tasks: Sequence[Task], environment: EnvironmentSpecification, jobs: int) -> Iterator[TaskPortability]:
    """Examine the certified solutions of tasks, `jobs` at a time, and yield each result in their order."""
    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(lambda task: examine_portability(task, environment), tasks)
