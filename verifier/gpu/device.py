"""The GPU as the device of one submission."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from verifier.candidate.channel import Message
from verifier.device import costs, library
from verifier.device.device import Device, Grid, Loaded, Usage
from verifier.device.faults import CannotCompile, IllegalAccess, NotInterpretable, OutOfDeviceMemory
from verifier.device.poison import make_poison
from verifier.gpu import noise
from verifier.gpu.compiling import CompileLine
from verifier.gpu.kernels import GpuKernel, load_kernel
from verifier.gpu.profile import Profiler
from verifier.gpu.stopwatch import Stopwatch

TIMED_MODES = ("cold", "warm", "queued")
BENCH_HOLD = 0.05
MAXIMUM_MARKS = 100_000
# Operators whose answer the host waits for.
WAITING = {
    "_local_scalar_dense", "nonzero", "masked_select", "_unique", "_unique2", "unique_dim", "unique_consecutive", "equal",
    "is_nonzero", "bincount", "repeat_interleave", "item", "allclose", "isclose", "argwhere", "histc", "multinomial",
}  # fmt: skip
BOOLEAN = (torch.bool, torch.uint8)


class GpuDevice(Device):
    """The one GPU of this process. Work is queued on one stream, in the order in which it is asked for."""

    where = torch.device("cuda", 0)

    def __init__(self, compiler: CompileLine, l2_bytes: int, memory_bytes: int) -> None:
        """Take the GPU, with at most `memory_bytes` of its memory."""
        super().__init__()
        self.compiler = compiler
        total = torch.cuda.get_device_properties(self.where).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, memory_bytes / total), self.where)
        pin_settings()
        self.stopwatch = Stopwatch(l2_bytes)
        torch.cuda.set_stream(self.stopwatch.stream)
        self.generator = torch.Generator(device=self.where)
        self.profiler = Profiler()
        self.profiler.warm_up()
        self.timed = False
        self.marks: list[torch.cuda.Event] = []

    def retain(self, tensor: torch.Tensor) -> int:
        return int(tensor.untyped_storage().data_ptr())

    def release(self, base: int) -> None:
        """PyTorch frees a storage with its last tensor."""

    def reseed(self, seed: int) -> None:
        self.generator.manual_seed(seed)

    def fill_with_poison(self, tensor: torch.Tensor) -> None:
        storage = torch.empty(0, dtype=torch.uint8, device=self.where).set_(tensor.untyped_storage())
        pattern = make_poison(tensor.dtype, self.poison or 0)
        whole = storage.numel() // pattern.itemsize * pattern.itemsize
        if whole:
            signed = torch.from_numpy(pattern.view(f"i{pattern.itemsize}").reshape(1))
            storage[:whole].view(signed.dtype).fill_(int(signed))
        storage[whole:].fill_(0xFF)

    def prepare(self, name: str, text: str, options: dict[str, Any]) -> GpuKernel:
        compiled, image = self.compiler.compile(text, options)
        try:
            return load_kernel(text, compiled, image)
        except KeyError as error:
            raise NotInterpretable(f"the compiler did not report {error}") from error

    def describe_kernel(self, loaded: Loaded) -> Message:
        kernel = loaded.kernel
        if kernel is None:
            return {}
        return {"registers": kernel.registers, "spilled": kernel.spilled_bytes // 4, "shared": kernel.shared_bytes}

    def run(self, loaded: Loaded, grid: Grid, arguments: Sequence[Any], usage: Usage) -> None:
        kernel: GpuKernel = loaded.kernel
        stream = self.stopwatch.stream.cuda_stream
        if loaded.digest not in self.ablated:
            with self.profiler.label(f"own {loaded.digest}"):
                kernel.launch(grid, arguments, stream)
            return
        found = noise.find_targets(kernel.arguments, arguments, self.find_storage)
        targets = [target for target in found if self.ablate_integers or target.is_floating_point()]
        before = [target.clone() for target in targets]
        kernel.launch(grid, arguments, stream)
        for target, old in zip(targets, before, strict=True):
            self.record.replaced += noise.replace_changes(target, old, self.generator)

    def find_storage(self, address: int) -> noise.Storage | None:
        """Return the allocation that holds an address, or None."""
        for tensor, base in self.tensors.values():
            storage = tensor.untyped_storage()
            if base and base <= address < base + storage.nbytes():
                content = torch.empty(0, dtype=torch.uint8, device=self.where).set_(storage)
                return noise.Storage(content, tensor.dtype)
        return None

    def call_library(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if self.stopwatch.holding and waits_for_result(name, args):
            self.stopwatch.release_early()
        try:
            with self.profiler.label("library"):
                return super().call_library(name, args, kwargs)
        except torch.OutOfMemoryError as error:
            raise OutOfDeviceMemory(str(error)[:300]) from error
        except RuntimeError as error:
            if "CUDA error" in str(error):
                raise IllegalAccess(str(error)[:300]) from error
            raise

    def synchronise(self) -> None:
        """Wait for all work. Raises IllegalAccess when some of it failed."""
        self.stopwatch.release_early()
        try:
            self.stopwatch.stream.synchronize()
        except RuntimeError as error:
            raise IllegalAccess(str(error)[:300]) from error

    def begin(self, mode: str, hold: float) -> None:
        """Start a call: `checked` with poison, under the stopwatch, or `profiled`.

        `cold` and `warm` time one call, with and without a flush; `queued` times many, one after another.
        """
        if mode in TIMED_MODES:
            self.stopwatch.stream.synchronize()
            self.stopwatch.arm(cold=mode == "cold", longest_hold=hold)
            self.timed = True
        elif mode == "profiled":
            self.profiler.start()

    def end(self, mode: str) -> Message:
        """End a call and return what was measured. Raises IllegalAccess when the call's work failed."""
        if self.timed:
            self.timed = False
            try:
                reading = self.stopwatch.stop()
            except RuntimeError as error:
                raise IllegalAccess(str(error)[:300]) from error
            return {"milliseconds": reading.milliseconds, "released_early": reading.released_early}
        self.synchronise()
        return {"profile": self.profiler.stop()} if mode == "profiled" else {}

    def mark(self) -> int:
        if len(self.marks) >= MAXIMUM_MARKS:
            raise library.NotPermitted(f"more than {MAXIMUM_MARKS} events")
        event = torch.cuda.Event(enable_timing=True)
        event.record(self.stopwatch.stream)
        self.marks.append(event)
        return len(self.marks) - 1

    def measure_marks(self, first: int, second: int) -> float:
        self.synchronise()
        return float(self.marks[first].elapsed_time(self.marks[second]))

    def begin_bench(self) -> None:
        if self.timed:
            super().begin_bench()
        else:
            self.stopwatch.arm(cold=True, longest_hold=BENCH_HOLD)

    def end_bench(self) -> float:
        if self.timed:
            return super().end_bench()
        try:
            return self.stopwatch.stop().milliseconds
        except RuntimeError as error:
            raise IllegalAccess(str(error)[:300]) from error

    def read_machine_code(self, digest: str) -> tuple[Message, bytes]:
        kernel: GpuKernel = next(item.kernel for item in self.kernels if item.digest == digest)
        found = {
            "registers": kernel.registers,
            "spilled": kernel.spilled_bytes,
            "shared": kernel.shared_bytes,
        }
        try:
            return found, self.compiler.disassemble(kernel.image).encode()
        except CannotCompile as error:
            return {**found, "error": str(error)}, b""

    def describe(self) -> Message:
        return {"flush_bytes": self.stopwatch.flush_bytes}


def pin_settings() -> None:
    """Pin every switch that permits reduced precision, here where the operators run."""
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.set_float32_matmul_precision("highest")
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False


def read_settings() -> Message:
    """Return the switches as they stand."""
    return {
        "matmul_tf32": torch.backends.cuda.matmul.allow_tf32,
        "cudnn_tf32": torch.backends.cudnn.allow_tf32,
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
    }


def waits_for_result(name: str, args: Sequence[Any]) -> bool:
    """Return whether the host waits for what an operator finds."""
    base = name.partition("::")[2].partition(".")[0]
    if base in WAITING:
        return True
    # A mask among the indices says how many elements there are.
    return base.startswith(("index", "_index")) and any(t.dtype in BOOLEAN for t in costs.list_tensors(args[1:2]))
