"""Triton's driver for the simulated GPU: real compilation, launches sent to the device process."""

from __future__ import annotations

from typing import Any

import torch
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import CompiledKernel
from triton.compiler.errors import CompileTimeAssertionFailure
from triton.runtime.autotuner import Autotuner
from triton.runtime.driver import driver
from triton.runtime.errors import OutOfResources

from verifier.candidate import tensors
from verifier.candidate.binaries import read_resource_usage


class Utilities:
    """What Triton asks of a device."""

    def __init__(self, properties: dict[str, int]) -> None:
        self.properties = properties

    def get_device_properties(self, device: int) -> dict[str, int]:
        return dict(self.properties)

    def load_binary(self, name: str, cubin: bytes, shared: int, device: int) -> tuple[int, int, int, int]:
        registers, spilled = read_resource_usage(cubin)
        return 1, 1, registers, spilled // 4


class Launcher:
    """Sends launches of one compiled kernel to the device."""

    def __init__(self, compiled: CompiledKernel) -> None:
        metadata = compiled.metadata
        options = {"num_warps": metadata.num_warps, "num_stages": metadata.num_stages, "num_ctas": metadata.num_ctas}
        if getattr(metadata, "maxnreg", None):
            options["maxnreg"] = metadata.maxnreg
        options["enable_fp_fusion"] = metadata.enable_fp_fusion
        message = {"do": "load", "name": metadata.name, "options": options}
        answer, _ = tensors.client.ask(message, compiled.asm["ttir"].encode())
        self.kernel = answer["kernel"]
        constants = {key if isinstance(key, str) else compiled.src.fn.arg_names[key] for key in compiled.src.constants}
        self.passed = [name not in constants for name in compiled.src.signature]

    def __call__(  # noqa: PLR0913, PLR0917 - the signature of Triton's own launcher
        self,
        x: int,
        y: int,
        z: int,
        stream: Any,
        function: Any,
        packed: Any,
        metadata: Any,
        enter: Any,
        leave: Any,
        *values: Any,
    ) -> None:
        if min(x, y, z) < 1:
            return
        if callable(enter):
            enter(metadata)
        arguments = []
        for value, passed in zip(values, self.passed, strict=False):
            if not passed:
                continue
            if isinstance(value, torch.Tensor) and not isinstance(value, tensors.DeviceTensor):
                raise ValueError("Pointer argument cannot be accessed from Triton (cpu tensor?)")  # noqa: TRY004 - as Triton does
            if hasattr(value, "data_ptr"):
                arguments.append(value.data_ptr())
            else:
                arguments.append(0 if value is None else value)
        message = {
            "do": "launch",
            "kernel": self.kernel,
            "grid": [x, y, z],
            "arguments": arguments,
        }
        tensors.client.ask(message)
        if callable(leave):
            leave(metadata)


class SimulatedDriver:
    """Says that one GPU is there."""

    binary_ext = "cubin"
    launcher_cls = Launcher

    def __init__(self, capability: int, properties: dict[str, int]) -> None:
        self.capability = capability
        self.utils = Utilities(properties)

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", self.capability, 32)

    def get_current_device(self) -> int:
        return 0

    def set_current_device(self, device: int) -> None:
        return None

    def get_current_stream(self, device: int = 0) -> int:
        return 0

    def get_device_capability(self, device: int = 0) -> tuple[int, int]:
        return divmod(self.capability, 10)

    def get_device_interface(self) -> Any:
        return torch.cuda

    def get_active_torch_device(self) -> torch.device:
        return tensors.DEVICE

    def assemble_tensormap_to_arg(self, tensormaps: Any, args: Any) -> Any:
        return args

    @staticmethod
    def is_active() -> bool:
        return True


def initialise_handles(self: CompiledKernel) -> None:
    """Replace CompiledKernel._init_handles: check shared memory, then hand the kernel to the device."""
    if self.module is not None:
        return
    limit = driver.active.utils.get_device_properties(0)["max_shared_mem"]
    if self.metadata.shared > limit:
        raise OutOfResources(self.metadata.shared, limit, "shared memory")
    self.module, self.function, self.n_regs, self.n_spills = driver.active.utils.load_binary(
        self.name, self.kernel, self.metadata.shared, 0
    )
    self.run = Launcher(self)


def choose_first_fitting(self: Autotuner, *args: Any, config: Any, **meta: Any) -> list[float]:
    """Replace Autotuner._bench: nothing is timed here, so the first configuration that fits is taken."""
    conflicts = meta.keys() & config.kwargs.keys()
    if conflicts:
        raise ValueError(
            f"Conflicting meta-parameters: {', '.join(conflicts)}. Make sure that you don't re-define auto-tuned symbols."
        )
    if getattr(self, "chosen_for", None) is self.nargs:
        return [1.0, 1.0, 1.0]
    try:
        compiled = self.fn.run(*args, **{**meta, **config.all_kwargs(), "warmup": True})
        compiled._init_handles()  # noqa: SLF001 - Triton checks shared memory there
    except (OutOfResources, CompileTimeAssertionFailure):
        return [float("inf")] * 3
    self.chosen_for = self.nargs
    return [0.0, 0.0, 0.0]


def install(capability: int, properties: dict[str, int]) -> None:
    """Make the simulated GPU Triton's active driver."""
    driver.set_active(SimulatedDriver(capability, properties))
    CompiledKernel._init_handles = initialise_handles  # noqa: SLF001
    Autotuner._bench = choose_first_fitting  # noqa: SLF001
