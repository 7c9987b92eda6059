"""A kernel on the GPU: compiled from its IR in another box, loaded from that machine code, and launched."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import c_uint64, c_void_p
from dataclasses import dataclass
from typing import Any

import torch

from verifier.candidate.channel import Message
from verifier.device.faults import CannotCompile, IllegalAccess, IRError, KernelFault
from verifier.gpu import driver
from verifier.gpu.descriptors import encode_descriptor
from verifier.gpu.signature import Parameter, pack, parse_signature

THREADS_A_WARP = 32
# Newer versions of Triton's compiler add a pointer to scratch memory, and one for its own profiler.
MAXIMUM_SCRATCH_POINTERS = 2


@dataclass
class GpuKernel:
    """One loaded kernel."""

    arguments: list[Parameter]
    image: bytes
    function: c_void_p
    threads: int
    shared_bytes: int
    clusters: int
    scratch_bytes: int
    extra_parameters: int
    attributes: list[tuple[int, tuple[int, ...]]]
    descriptors: list[Message]
    registers: int
    spilled_bytes: int

    def launch(self, grid: Sequence[int], values: Sequence[Any], stream: int) -> None:
        """Queue a launch. Raises IllegalAccess, or KernelFault for arguments that do not fit."""
        if len(values) != len(self.arguments):
            raise KernelFault(f"the kernel takes {len(self.arguments)} arguments, not {len(values)}")
        packed: list[Any] = []
        described = iter(self.descriptors or [{}] * len(values))
        for parameter, value in zip(self.arguments, values, strict=True):
            packed += (
                encode_descriptor(parameter, value, next(described))
                if parameter.is_descriptor
                else [pack(parameter, value)]
            )
        scratch = self.allocate_scratch(grid)
        packed += [c_uint64(scratch.data_ptr() if scratch is not None else 0), c_uint64(0)][: self.extra_parameters]
        try:
            # As Triton's launcher does, a grid counts clusters, and the driver counts blocks.
            blocks = (grid[0] * self.clusters, grid[1], grid[2])
            driver.launch(self.function, blocks, self.threads, self.shared_bytes, stream, packed, self.attributes)
        except driver.CudaError as error:
            raise IllegalAccess(str(error)) from error

    def allocate_scratch(self, grid: Sequence[int]) -> torch.Tensor | None:
        """Return the memory that the compiler asks for beside the arguments. Freed in the order of the stream."""
        if not self.scratch_bytes:
            return None
        programs = grid[0] * grid[1] * grid[2] * self.clusters
        return torch.empty(self.scratch_bytes * programs, dtype=torch.uint8, device="cuda")


def load_kernel(text: str, compiled: Message, image: bytes) -> GpuKernel:
    """Return the kernel of some IR from what the compiler made of it. Raises CannotCompile or IRError."""
    parameters = parse_signature(text)
    # The driver reads as many arguments as the machine code takes, whatever it is given.
    extra = compiled["parameters"] - len(parameters)
    if not 0 <= extra <= MAXIMUM_SCRATCH_POINTERS:
        raise IRError(f"the kernel takes {extra:+d} parameters beside the {len(parameters)} of its IR")
    cooperative, programmatic = bool(compiled["cooperative"]), bool(compiled["programmatic"])
    try:
        function = driver.load_function(image, compiled["name"])
        registers, spilled, most_threads = driver.read_resources(function)
        driver.allow_shared_memory(function, compiled["shared"])
        driver.allow_large_clusters(function, compiled["clusters"])
    except driver.CudaError as error:
        raise CannotCompile(f"OutOfResources: the GPU cannot load the kernel: {error}") from error
    threads = compiled["warps"] * THREADS_A_WARP
    if threads > most_threads:
        raise CannotCompile(f"OutOfResources: the kernel needs {threads} threads a block, of {most_threads}")
    return GpuKernel(
        arguments=parameters,
        image=image,
        function=function,
        threads=threads,
        shared_bytes=compiled["shared"],
        clusters=compiled["clusters"],
        scratch_bytes=compiled["scratch"],
        extra_parameters=extra,
        attributes=driver.make_attributes(
            clusters=compiled["clusters"], cooperative=cooperative, programmatic=programmatic
        ),
        descriptors=compiled["descriptors"],
        registers=registers,
        spilled_bytes=spilled,
    )
