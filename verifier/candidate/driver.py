"""Triton's driver for a GPU in another process: kernels and launches are sent there."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from triton import testing
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import CUDABackend
from triton.backends.nvidia.driver import ty_to_cpp
from triton.compiler.compiler import CompiledKernel
from triton.compiler.errors import CompileTimeAssertionFailure
from triton.runtime.autotuner import Autotuner
from triton.runtime.driver import driver
from triton.runtime.errors import OutOfResources

from verifier.candidate import tensors
from verifier.candidate.binaries import read_resource_usage
from verifier.candidate.channel import Message
from verifier.candidate.client import KernelRefused

FIRST_WITH_BULK_COPIES = 90
BENCH_CALLS = 5


class Utilities:
    """What Triton asks of a device."""

    def __init__(self, properties: dict[str, int]) -> None:
        self.properties = properties

    def get_device_properties(self, device: int) -> dict[str, int]:
        return dict(self.properties)

    def load_binary(self, name: str, cubin: bytes, shared: int, device: int) -> tuple[int, int, int, int]:
        registers, spilled = read_resource_usage(cubin)
        return 1, 1, registers, spilled // 4


# What the compiler may be told; everything else has been decided by the time that there is IR.
OPTIONS = (
    "num_warps", "num_stages", "num_ctas", "maxnreg", "enable_fp_fusion", "launch_cooperative_grid", "launch_pdl",
)  # fmt: skip


def choose_options(metadata: Any) -> Message:
    """Return the options of a kernel that shape its machine code or its launch."""
    found = {name: getattr(metadata, name, None) for name in OPTIONS}
    return {name: value for name, value in found.items() if value is not None}


def find_constants(source: Any) -> set[str]:
    """Return the names of parameters that are no arguments of the compiled kernel."""
    named = {name for name, kind in source.signature.items() if kind == "constexpr"}
    for key in source.constants:
        # Older versions name or number a constant; newer ones give its place among nested tuples.
        place = key[0] if isinstance(key, tuple) and len(key) == 1 else key
        if isinstance(place, str | int):
            named.add(place if isinstance(place, str) else source.fn.arg_names[place])
    return named


def flatten(value: Any, kind: Any) -> Iterator[tuple[Any, Any]]:
    """Yield a value and its type in the signature, or those of a tuple's parts."""
    if isinstance(kind, tuple):
        for part, part_kind in zip(value, kind, strict=True):
            yield from flatten(part, part_kind)
    elif kind != "constexpr":
        yield value, kind


def pass_descriptor(value: Any, *, native: bool) -> list[Any]:
    """Return what a kernel gets for a tensor descriptor: with native bulk copies the descriptor, else its parts."""
    shape, strides = [int(size) for size in value.shape], [int(step) for step in value.strides]
    base, padding = value.base.data_ptr(), getattr(value, "padding", "zero")
    if native:
        return [{"base": base, "shape": shape, "strides": strides, "padding": padding}, *shape, *strides]
    return [base, *shape, *strides, padding == "nan", *shape, *strides]


class Launcher:
    """Sends launches of one compiled kernel to the device."""

    def __init__(self, compiled: CompiledKernel) -> None:
        metadata = compiled.metadata
        message = {"do": "load", "name": metadata.name, "options": choose_options(metadata)}
        text = compiled.asm["ttir"]
        self.described, _ = tensors.client.ask(message, text if isinstance(text, bytes) else text.encode())
        self.kernel = self.described["kernel"]
        constants = find_constants(compiled.src)
        self.kinds = [None if name in constants else kind for name, kind in compiled.src.signature.items()]
        self.native_descriptors = metadata.target.arch >= FIRST_WITH_BULK_COPIES

    def list_arguments(self, values: Sequence[Any]) -> list[Any]:
        """Return the scalars and addresses of a launch, in the kernel's order. Raises ValueError."""
        arguments: list[Any] = []
        for given, kinds in zip(values, self.kinds, strict=False):
            for value, kind in [] if kinds is None else flatten(given, kinds):
                if isinstance(value, torch.Tensor) and not isinstance(value, tensors.DeviceTensor):
                    raise ValueError("Pointer argument cannot be accessed from Triton (cpu tensor?)")  # noqa: TRY004 - as Triton does
                if str(kind).startswith("tensordesc"):
                    arguments += pass_descriptor(value, native=self.native_descriptors)
                elif hasattr(value, "data_ptr"):
                    arguments.append(value.data_ptr())
                else:
                    arguments.append(0 if value is None else value)
        return arguments

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
        message = {
            "do": "launch",
            "kernel": self.kernel,
            "grid": [x, y, z],
            "arguments": self.list_arguments(values),
        }
        tensors.client.ask(message)
        if callable(leave):
            leave(metadata)


class RemoteDriver:
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

    def get_benchmarker(self) -> Any:
        return bench

    def get_empty_cache_for_benchmark(self) -> torch.Tensor:
        return torch.empty(1, dtype=torch.int32, device=tensors.DEVICE)

    def clear_cache(self, cache: torch.Tensor) -> None:
        return None

    def map_python_to_cpp_type(self, kind: str) -> str:
        return ty_to_cpp(kind)

    def assemble_tensormap_to_arg(self, tensormaps: Any, args: Any) -> Any:
        return args

    @staticmethod
    def is_active() -> bool:
        return True


def initialise_handles(self: CompiledKernel) -> None:
    """Replace CompiledKernel._init_handles: check shared memory, then hand the kernel to the simulated device."""
    if self.module is not None:
        return
    limit = driver.active.utils.get_device_properties(0)["max_shared_mem"]
    if self.metadata.shared > limit:
        raise OutOfResources(self.metadata.shared, limit, "shared memory")
    self.module, self.function, self.n_regs, self.n_spills = driver.active.utils.load_binary(
        self.name, self.kernel, self.metadata.shared, 0
    )
    attach(self, Launcher(self))


def attach(compiled: CompiledKernel, launcher: Launcher) -> None:
    """Let a kernel be launched; newer versions of Triton keep the launcher under another name."""
    setattr(compiled, "_run" if isinstance(vars(type(compiled)).get("run"), property) else "run", launcher)


def load_on_gpu(self: CompiledKernel) -> None:
    """Replace CompiledKernel._init_handles: the GPU's side compiles the IR, and says what the kernel uses."""
    if self.module is not None:
        return
    try:
        launcher = Launcher(self)
    except KernelRefused as error:
        if "OutOfResources" in str(error):
            limit = driver.active.utils.get_device_properties(0)["max_shared_mem"]
            raise OutOfResources(limit + 1, limit, f"shared memory or threads ({error})") from error
        raise
    described: Message = launcher.described
    self.module = self.function = 1
    self.n_regs, self.n_spills = described.get("registers", 0), described.get("spilled", 0)
    self.n_max_threads = 1024
    self.metadata = self.metadata._replace(shared=described.get("shared", 0))
    attach(self, launcher)


def stop_at_ir(backend: type) -> None:
    """Make Triton's compiler end at its own IR: machine code is made where the GPU is."""
    add_stages = backend.add_stages  # type: ignore[attr-defined]

    def add_first_stage(self: Any, stages: dict[str, Any], options: Any, *others: Any) -> None:
        add_stages(self, stages, options, *others)
        made = dict(stages)
        stages.clear()

        def finish(source: Any, metadata: Message) -> Any:
            module = made["ttir"](source, metadata)
            metadata.setdefault("shared", 0)
            metadata.setdefault("name", find_name(module))
            return module

        stages["ttir"] = finish

    backend.add_stages = add_first_stage  # type: ignore[attr-defined]
    backend.binary_ext = property(lambda self: "ttir", lambda self, value: None)  # type: ignore[attr-defined]


def find_name(module: Any) -> str:
    """Return the name of the kernel in Triton IR."""
    match = re.search(r"tt\.func public @\"?([\w$.]+)", str(module))
    return match[1] if match else ""


def bench(call: Callable[[], Any], quantiles: Sequence[float] = (), **others: Any) -> list[float]:
    """Time a launch for an autotuner, on the device, after a first call that compiles it."""
    call()
    times = []
    for _ in range(BENCH_CALLS):
        tensors.client.ask({"do": "bench", "action": "begin"})
        try:
            call()
        finally:
            answer, _ = tensors.client.ask({"do": "bench", "action": "end"})
        times.append(answer["milliseconds"])
    return [sorted(times)[BENCH_CALLS // 2]] * max(1, len(quantiles))


def bench_configuration(self: Autotuner, *args: Any, config: Any, **meta: Any) -> list[float]:
    """Replace Autotuner._bench: the device times the launch. What does not compile or fit is never chosen."""
    conflicts = meta.keys() & config.kwargs.keys()
    if conflicts:
        raise ValueError(
            f"Conflicting meta-parameters: {', '.join(conflicts)}. Make sure that you don't re-define auto-tuned symbols."
        )
    chosen = {**meta, **config.all_kwargs()}
    named = {**self.nargs, **chosen}

    def call() -> None:
        if config.pre_hook:
            config.pre_hook(named)
        self.pre_hook(named)
        self.fn.run(*args, **chosen)
        self.post_hook(named, exception=None)

    try:
        return bench(call, (0.5, 0.2, 0.8))
    except (OutOfResources, CompileTimeAssertionFailure, KernelRefused):
        return [float("inf")] * 3


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


def install(kind: str, capability: int, properties: dict[str, int]) -> None:
    """Make the device Triton's active driver."""
    driver.set_active(RemoteDriver(capability, properties))
    if kind == "gpu":
        stop_at_ir(CUDABackend)
        CompiledKernel._init_handles = load_on_gpu  # noqa: SLF001
        Autotuner._bench = bench_configuration  # noqa: SLF001
        testing.do_bench = bench
    else:
        CompiledKernel._init_handles = initialise_handles  # noqa: SLF001
        Autotuner._bench = choose_first_fitting  # noqa: SLF001
