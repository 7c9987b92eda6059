"""The device of a dry run: operators tell shapes, launches are recorded, kernels are compiled and not run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from verifier.candidate.channel import Message
from verifier.device.device import Device, Grid, Loaded, Usage
from verifier.device.faults import CannotCompile, IRError, KernelFault
from verifier.dry.memory import AddressSpace
from verifier.gpu.compiling import CompileLine
from verifier.gpu.signature import Parameter, parse_signature


@dataclass
class DryKernel:
    """What the compiler made of a kernel, or why it made nothing."""

    arguments: list[Parameter]
    compiled: Message
    image: bytes = b""
    error: str = ""


class DryDevice(Device):
    """A GPU of `capacity` bytes that does no work.

    A kernel that does not compile, or that asks for too much shared memory, is recorded and taken as launched, so
    that a report names every such kernel and not only the first.
    """

    where = torch.device("meta")

    def __init__(self, compiler: CompileLine, capacity: int) -> None:
        super().__init__()
        self.compiler = compiler
        self.space = AddressSpace(capacity)

    def retain(self, tensor: torch.Tensor) -> int:
        return self.space.retain(tensor)

    def release(self, base: int) -> None:
        self.space.release(base)

    def fill_with_poison(self, tensor: torch.Tensor) -> None:
        """There is nothing to fill."""

    def reseed(self, seed: int) -> None:
        """Nothing is ablated."""

    def describe_tensor(self, handle: int) -> Message:
        """Return what the other side needs to know of a tensor, its address among it."""
        tensor, base = self.tensors[handle]
        return {**super().describe_tensor(handle), "pointer": base + tensor.storage_offset() * tensor.element_size()}

    def prepare(self, name: str, text: str, options: dict[str, Any]) -> DryKernel:
        try:
            arguments = parse_signature(text)
            compiled, image = self.compiler.compile(text, options)
        except (CannotCompile, IRError) as error:
            return DryKernel([], {}, error=f"{error}" or type(error).__name__)
        return DryKernel(arguments, compiled, image)

    def describe_kernel(self, loaded: Loaded) -> Message:
        compiled = loaded.kernel.compiled
        registers, spilled = compiled.get("registers", 0), compiled.get("spilled", 0)
        return {"registers": registers, "spilled": spilled // 4, "shared": compiled.get("shared", 0)}

    def run(self, loaded: Loaded, grid: Grid, arguments: Sequence[Any], usage: Usage) -> None:
        """Check that a launch passes as many arguments as the kernel takes. Raises KernelFault."""
        kernel: DryKernel = loaded.kernel
        if not kernel.error and len(arguments) != len(kernel.arguments):
            raise KernelFault(f"the kernel takes {len(kernel.arguments)} arguments, not {len(arguments)}")

    def end_bench(self) -> float:
        """Find all configurations of an autotuner equally fast, so that it chooses the first."""
        return 1.0

    def end(self, mode: str) -> Message:
        """Return the most memory that was live at a time so far, in bytes."""
        return {"peak_bytes": self.space.peak}

    def read_machine_code(self, digest: str) -> tuple[Message, bytes]:
        kernel: DryKernel = next(item.kernel for item in self.kernels if item.digest == digest)
        if kernel.error:
            return {"error": kernel.error}, b""
        found = {name: kernel.compiled[name] for name in ("registers", "spilled", "shared", "warps")}
        try:
            return found, self.compiler.disassemble(kernel.image).encode()
        except CannotCompile as error:
            return {**found, "error": str(error)}, b""
