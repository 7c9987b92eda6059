"""The device that a submission's work runs on: tensors, kernels, library operators, and the record of it all.

It holds the inputs of the calls made so far and nothing else: no seed, no oracle, no tolerance.
"""

from __future__ import annotations

import hashlib
import re
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._ops import OpOverload

from verifier.candidate.channel import Message
from verifier.device import costs, library
from verifier.device.canonical import Canonicaliser
from verifier.device.faults import IllegalAccess, IRError, NotInterpretable, OutOfDeviceMemory
from verifier.device.words import Words

MAXIMUM_TENSORS = 200_000
MAXIMUM_KERNELS = 4_096
# The machine code of each is read, those that an autotuner tries among them.
MAXIMUM_LAUNCHED = 1_024
MAXIMUM_GRIDS = 8
NARROW_POINTEE = re.compile(r"f16|bf16|f8")

Grid = tuple[int, int, int]


@dataclass
class Loaded:
    """A kernel as the submission's process handed it over."""

    name: str
    text: str
    options: dict[str, Any]
    digest: str
    kernel: Any = None
    refusal: str = ""


@dataclass
class Usage:
    launches: int = 0
    programs: int = 0
    operations: int = 0
    grids: list[tuple[int, int, int]] = field(default_factory=list)
    narrow_arguments: set[str] = field(default_factory=set)


@dataclass
class Record:
    """What happened between `begin` and `end`."""

    kernels: dict[str, Usage] = field(default_factory=dict)
    library_calls: Counter[str] = field(default_factory=Counter)
    library_operations: Counter[str] = field(default_factory=Counter)
    narrowing: Counter[str] = field(default_factory=Counter)
    flags: Counter[str] = field(default_factory=Counter)
    uploaded: int = 0
    downloaded: int = 0
    replaced: int = 0


class Device(ABC):
    """Tensors, kernels and the record of one session. Says what is common to every kind of device."""

    where: torch.device

    def __init__(self) -> None:
        self.tensors: dict[int, tuple[torch.Tensor, int]] = {}
        self.kernels: list[Loaded] = []
        self.launched: set[str] = set()
        self.record = Record()
        self.ablated: set[str] = set()
        self.ablate_integers = False
        self.moved: set[str] = set()
        self.poison: int | None = 0
        self.fault = ""
        self.uninterpretable: list[str] = []
        self.events: Counter[str] = Counter()
        self.open = True
        self.canonicaliser = Canonicaliser()
        self.given: set[int] = set()
        self.filled: set[int] = set()
        self.words = Words(self.tensors, self.filled)
        self.graphs: list[list[Callable[[], None]]] = []
        self.recording: list[Callable[[], None]] | None = None
        self.next_handle = 1
        self.moments: list[float] = []
        self.bench_start = 0

    @abstractmethod
    def retain(self, tensor: torch.Tensor) -> int:
        """Count one more holder of a tensor's storage and return its address. Raises OutOfDeviceMemory."""

    @abstractmethod
    def release(self, base: int) -> None:
        """Drop one holder of the storage at `base`."""

    @abstractmethod
    def fill_with_poison(self, tensor: torch.Tensor) -> None:
        """Fill fresh memory with NaN that carries this session's mark, or with a marked integer."""

    @abstractmethod
    def prepare(self, name: str, text: str, options: dict[str, Any]) -> Any:
        """Return a kernel that can run, with `arguments`, the type of each parameter. Raises CannotCompile or NotInterpretable."""

    @abstractmethod
    def run(self, loaded: Loaded, grid: Grid, arguments: Sequence[Any], usage: Usage) -> None:
        """Run a kernel, and replace what it wrote by noise when it is ablated: floats, and integers when asked.

        Raises IllegalAccess or NotInterpretable.
        """

    @abstractmethod
    def reseed(self, seed: int) -> None:
        """Seed the noise of ablations."""

    def describe_kernel(self, loaded: Loaded) -> Message:
        """Return what a submission may ask of a kernel that was loaded."""
        return {}

    def describe(self) -> Message:
        """Return what the judge records of the device."""
        return {}

    def begin(self, mode: str, hold: float) -> None:
        """Start a call in a mode: `checked`, or where the device can, `cold`, `warm`, `queued` or `profiled`.

        In timed modes work is queued for at most `hold` seconds before it runs.
        """

    def end(self, mode: str) -> Message:
        """End a call and return what was measured. Raises IllegalAccess when the call's work failed."""
        return {}

    def synchronise(self) -> None:
        """Wait for all work. Raises IllegalAccess when some of it failed."""

    def mark(self) -> int:
        """Note a moment between the submission's requests and return its number."""
        self.moments.append(time.perf_counter())
        return len(self.moments) - 1

    def measure_marks(self, first: int, second: int) -> float:
        """Return the milliseconds between two moments."""
        return (self.moments[second] - self.moments[first]) * 1e3

    def begin_bench(self) -> None:
        """Start timing for an autotuner."""
        self.bench_start = self.mark()

    def end_bench(self) -> float:
        """Return the milliseconds since `begin_bench`."""
        return self.measure_marks(self.bench_start, self.mark())

    def read_machine_code(self, digest: str) -> tuple[Message, bytes]:
        """Return what a loaded kernel uses, and the text of its machine code."""
        raise NotImplementedError

    def add(self, tensor: torch.Tensor) -> int:
        """Keep a tensor and return its handle. Raises OutOfDeviceMemory."""
        if len(self.tensors) >= MAXIMUM_TENSORS:
            raise OutOfDeviceMemory(f"more than {MAXIMUM_TENSORS} live tensors")
        handle, self.next_handle = self.next_handle, self.next_handle + 1
        self.tensors[handle] = (tensor, self.retain(tensor))
        return handle

    def drop_own(self, handle: Any) -> None:
        """Forget a tensor of the submission's; one that the judge gave is not its to free."""
        if handle in self.given:
            self.events["protocol_error"] += 1
        else:
            self.drop(handle)

    def drop(self, handle: int) -> None:
        """Forget a tensor; its storage goes with its last handle."""
        self.given.discard(handle)
        self.filled.discard(handle)
        kept = self.tensors.pop(handle, None)
        if kept is not None:
            self.release(kept[1])

    def tensor(self, handle: Any) -> torch.Tensor:
        """Return the tensor behind a handle. Raises NotPermitted."""
        if not isinstance(handle, int) or handle not in self.tensors:
            raise library.NotPermitted("no such tensor")
        return self.tensors[handle][0]

    def describe_tensor(self, handle: int) -> Message:
        """Return what the other side needs to know of a tensor."""
        tensor, base = self.tensors[handle]
        return {
            "handle": handle,
            "shape": list(tensor.shape),
            "stride": list(tensor.stride()),
            "offset": tensor.storage_offset(),
            "dtype": str(tensor.dtype).removeprefix("torch."),
            "pointer": tensor.data_ptr(),
            "storage": base,
            "storage_bytes": tensor.untyped_storage().nbytes(),
        }

    def look_away(self, inputs: Iterable[int]) -> None:
        """Leave the words of a call's inputs out of account: only while it lasts do they hold what the judge put there."""
        self.filled.clear()
        self.filled.update(inputs)
        self.words.begin()

    def check_fault(self) -> None:
        """As on a GPU, nothing runs after an illegal access. Raises IllegalAccess."""
        if self.fault:
            raise IllegalAccess(self.fault)

    def check_open(self) -> None:
        """Work is done while the judge waits for a call, and at no other time. Raises NotPermitted."""
        if not self.open:
            self.events["late_work"] += 1
            raise library.NotPermitted("the call has ended")

    def load(self, name: str, text: str, options: dict[str, Any]) -> int:
        """Keep a kernel and return its number. Raises NotPermitted, IRError or CannotCompile."""
        if len(self.kernels) >= MAXIMUM_KERNELS:
            raise library.NotPermitted(f"more than {MAXIMUM_KERNELS} different kernels")
        try:
            text = self.canonicaliser.rewrite(text)
        except IRError:
            self.events["protocol_error"] += 1
            raise
        digest = hashlib.sha256(f"{name}\n{sorted(options.items())}\n{text}".encode()).hexdigest()[:16]
        loaded = Loaded(name, text, options, digest)
        try:
            loaded.kernel = self.prepare(name, text, options)
        except NotInterpretable as error:
            # A gap of the device's is named when the kernel is launched.
            loaded.refusal = str(error)
        self.kernels.append(loaded)
        return len(self.kernels) - 1

    def launch(self, number: int, grid: Grid, arguments: Sequence[Any]) -> None:
        """Run a kernel and count it."""
        loaded = self.kernels[number]
        self.launched.add(loaded.digest)
        if len(self.launched) > MAXIMUM_LAUNCHED:
            raise library.NotPermitted(f"more than {MAXIMUM_LAUNCHED} different kernels are launched")
        usage = self.record.kernels.setdefault(loaded.digest, Usage())
        usage.launches += 1
        usage.programs += grid[0] * grid[1] * grid[2]
        if len(usage.grids) < MAXIMUM_GRIDS and grid not in usage.grids:
            usage.grids.append(grid)
        if loaded.kernel is None:
            self.uninterpretable.append(f"{loaded.name}: {loaded.refusal}")
            raise NotInterpretable(loaded.refusal)
        usage.narrow_arguments |= {
            kind.pointee for kind in loaded.kernel.arguments if NARROW_POINTEE.match(kind.pointee)
        }
        self.words.note(loaded.digest, loaded.kernel.arguments, arguments)
        if loaded.digest not in self.moved:
            self.run(loaded, grid, arguments, usage)
            return
        with self.move_inputs(loaded.kernel.arguments, arguments) as elsewhere:
            self.run(loaded, grid, elsewhere, usage)

    @contextmanager
    def move_inputs(self, parameters: Sequence[Any], values: Sequence[Any]) -> Iterator[list[Any]]:
        """Lend a launch's arguments with every address in an input replaced by that of a copy."""
        copies: dict[int, int] = {}
        try:
            yield [
                self.move_address(value, copies) if parameter.pointee else value
                for parameter, value in zip(parameters, values, strict=True)
            ]
        finally:
            # What was launched may still read them.
            self.synchronise()
            for handle in copies.values():
                self.drop(handle)

    def move_address(self, value: Any, copies: dict[int, int]) -> Any:
        """Return a pointer or a descriptor with its address in a copy, when it lies in an input."""
        if isinstance(value, dict):
            return {**value, "base": self.move_address(value.get("base"), copies)}
        if not isinstance(value, int):
            return value
        for handle in self.filled & self.tensors.keys():
            tensor, base = self.tensors[handle]
            storage = tensor.untyped_storage()
            if base <= value < base + storage.nbytes():
                if base not in copies:
                    content = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage)
                    copies[base] = self.add(content.clone())
                return self.tensors[copies[base]][1] + value - base
        return value

    def call_library(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Run one library operator on the device's tensors and return its result."""
        function = library.find_operator(name)
        base = costs.find_base_name(function)
        library.check_arguments(function, args, kwargs)
        if kwargs.get("unsafe"):
            raise library.NotPermitted("unsafe operators are not available on this device")
        result = function(*args, **kwargs)
        for tensor in costs.list_tensors(result):
            library.check_extent(tensor)
        self.record.downloaded += library.count_readback(result)
        if base in library.UNINITIALISED and self.poison is not None:
            self.fill_with_poison(result)
        self.record.library_calls[base] += 1
        self.record.library_operations[base] += costs.count_operations(function, args, kwargs, result)
        if narrowing := library.find_narrowing(base, args, kwargs, result):
            self.record.narrowing[f"{base}: {narrowing}"] += 1
        if self.recording is not None and not function.is_view:
            self.recording.append(make_replay(function, args, kwargs, result))
        return result


def make_replay(function: OpOverload, args: Any, kwargs: Any, result: Any) -> Callable[[], None]:
    """Return a closure that runs an operator again into the tensors that it gave."""
    results = list(costs.list_tensors(result))

    def replay() -> None:
        for old, new in zip(results, costs.list_tensors(function(*args, **kwargs)), strict=True):
            if old is not new:
                old.copy_(new)

    return replay
