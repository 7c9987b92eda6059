"""The simulated GPU itself: memory, kernels, library operators, and the record of what was done with them.

It holds the inputs of the calls made so far and nothing else: no seed, no oracle, no tolerance.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch._ops import OpOverload

from verifier.candidate.channel import Message
from verifier.interpreter import library
from verifier.interpreter.canonical import Canonicaliser
from verifier.interpreter.ir import IRError
from verifier.interpreter.kernels import Kernel, OverBudget, Touched
from verifier.interpreter.memory import IllegalAccess, Memory, OutOfDeviceMemory
from verifier.interpreter.numbers import FLOATS, STORED_DTYPES, NotInterpretable, convert, decode, encode
from verifier.interpreter.poison import make_poison

MAXIMUM_TENSORS = 200_000
MAXIMUM_KERNELS = 512
NARROW_POINTEE = re.compile(r"f16|bf16|f8")
MAXIMUM_GRIDS = 8
MAXIMUM_PROGRAMS = 1 << 22
STEP_BUDGET = 5_000_000


@dataclass
class Loaded:
    """A kernel as the submission's process handed it over."""

    name: str
    text: str
    options: dict[str, Any]
    digest: str
    kernel: Kernel | None
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


class Device:
    """Tensors, kernels and the record of one session."""

    def __init__(self, capacity: int) -> None:
        self.memory = Memory(capacity)
        self.tensors: dict[int, tuple[torch.Tensor, int]] = {}
        self.kernels: list[Loaded] = []
        self.record = Record()
        self.ablated: set[str] = set()
        self.noise = np.random.default_rng(0)
        self.poison = 0
        self.fault = ""
        self.uninterpretable: list[str] = []
        self.events: Counter[str] = Counter()
        self.open = True
        self.canonicaliser = Canonicaliser()
        self.given: set[int] = set()
        self.graphs: list[list[Callable[[], None]]] = []
        self.recording: list[Callable[[], None]] | None = None
        self.next_handle = 1

    def add(self, tensor: torch.Tensor) -> int:
        """Keep a tensor and return its handle. Raises OutOfDeviceMemory."""
        if len(self.tensors) >= MAXIMUM_TENSORS:
            raise OutOfDeviceMemory(f"more than {MAXIMUM_TENSORS} live tensors")
        handle, self.next_handle = self.next_handle, self.next_handle + 1
        self.tensors[handle] = (tensor, self.memory.retain(tensor))
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
        kept = self.tensors.pop(handle, None)
        if kept is not None:
            self.memory.release(kept[1])

    def tensor(self, handle: Any) -> torch.Tensor:
        """Return the tensor behind a handle. Raises NotPermitted."""
        if not isinstance(handle, int) or handle not in self.tensors:
            raise library.NotPermitted("no such tensor")
        return self.tensors[handle][0]

    def describe(self, handle: int) -> Message:
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

    def check_fault(self) -> None:
        """As on a GPU, nothing runs after an illegal access. Raises IllegalAccess."""
        if self.fault:
            raise IllegalAccess(self.fault)

    def check_open(self) -> None:
        """Work is done while the judge waits for a call, and at no other time. Raises NotPermitted."""
        if not self.open:
            self.events["late_work"] += 1
            raise library.NotPermitted("the call has ended")

    def fill_with_poison(self, tensor: torch.Tensor) -> None:
        """Fill fresh memory with NaN that carries this session's mark, or with a marked integer."""
        storage = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())
        if storage.numel():
            pattern = make_poison(tensor.dtype, self.poison)
            flat = storage.numpy()
            whole = flat.nbytes // pattern.itemsize * pattern.itemsize
            flat[:whole].view(pattern.dtype)[:] = pattern
            flat[whole:] = 0xFF

    def load(self, name: str, text: str, options: dict[str, Any]) -> int:
        """Keep a kernel and return its number. Raises NotPermitted."""
        if len(self.kernels) >= MAXIMUM_KERNELS:
            raise library.NotPermitted(f"more than {MAXIMUM_KERNELS} different kernels")
        try:
            text = self.canonicaliser.rewrite(text)
        except IRError:
            self.events["protocol_error"] += 1
            raise
        digest = hashlib.sha256(f"{name}\n{sorted(options.items())}\n{text}".encode()).hexdigest()[:16]
        try:
            loaded = Loaded(name, text, options, digest, Kernel(text, self.memory))
        except Exception as error:  # noqa: BLE001 - a gap of this interpreter's is named when the kernel is launched
            loaded = Loaded(name, text, options, digest, None, f"{type(error).__name__}: {error}"[:300])
        self.kernels.append(loaded)
        return len(self.kernels) - 1

    def launch(self, number: int, grid: tuple[int, int, int], arguments: list[Any]) -> None:
        """Run a kernel, count it, and replace what it wrote when it is ablated."""
        loaded = self.kernels[number]
        usage = self.record.kernels.setdefault(loaded.digest, Usage())
        programs = grid[0] * grid[1] * grid[2]
        usage.launches += 1
        usage.programs += programs
        if len(usage.grids) < MAXIMUM_GRIDS and grid not in usage.grids:
            usage.grids.append(grid)
        if loaded.kernel is None:
            self.uninterpretable.append(f"{loaded.name}: {loaded.refusal}")
            raise NotInterpretable(loaded.refusal)
        if programs > MAXIMUM_PROGRAMS:
            raise OverBudget(f"a grid of {programs} programs is too large for this environment")
        try:
            touched = loaded.kernel.run(grid, arguments, STEP_BUDGET)
        except (IllegalAccess, OverBudget, MemoryError):
            raise
        except Exception as error:
            # A gap of this interpreter's must not become the submitter's failure.
            reason = f"{loaded.name}: {type(error).__name__}: {error}"[:300]
            self.uninterpretable.append(reason)
            raise NotInterpretable(reason) from error
        usage.operations += touched.operations
        usage.narrow_arguments |= {
            kind.pointee for kind in loaded.kernel.arguments if NARROW_POINTEE.match(kind.pointee)
        }
        if loaded.digest in self.ablated:
            self.replace_with_noise(touched)

    def replace_with_noise(self, touched: Touched) -> None:
        """Put finite noise where a launch wrote; integers are shuffled so that they stay valid indices."""
        for base, parts in touched.writes.items():
            for element, indices in parts:
                stored: np.dtype[Any] = np.dtype(STORED_DTYPES[element])
                flat = self.memory.flat(base)
                view = flat[: flat.nbytes // stored.itemsize * stored.itemsize].view(stored)
                places = np.unique(indices)
                if element not in FLOATS:
                    view[places] = self.noise.permutation(view[places])
                    continue
                values = decode(view[places], element).astype(np.float64)
                spread = float(np.std(values[np.isfinite(values)])) if np.isfinite(values).any() else 1.0
                noise = self.noise.standard_normal(places.size) * max(1.0, spread) + self.noise.uniform(1.0, 2.0)
                view[places] = encode(convert(noise, element), element)

    def call_library(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Run one library operator on the device's tensors and return its result."""
        function = library.find_operator(name)
        base = library.find_base_name(function)
        if kwargs.get("unsafe"):
            raise library.NotPermitted("unsafe operators are not available on this device")
        result = function(*args, **kwargs)
        for tensor in library.list_tensors(result):
            library.check_extent(tensor)
        self.record.downloaded += library.count_readback(result)
        if base in library.UNINITIALISED:
            self.fill_with_poison(result)
        self.record.library_calls[base] += 1
        self.record.library_operations[base] += library.count_operations(function, args, kwargs, result)
        if narrowing := library.find_narrowing(args, kwargs, result):
            self.record.narrowing[f"{base}: {narrowing}"] += 1
        if self.recording is not None and not function.is_view:
            self.recording.append(make_replay(function, args, kwargs, result))
        return result


def make_replay(function: OpOverload, args: Any, kwargs: Any, result: Any) -> Callable[[], None]:
    """Return a closure that runs an operator again into the tensors that it gave."""
    results = list(library.list_tensors(result))

    def replay() -> None:
        for old, new in zip(results, library.list_tensors(function(*args, **kwargs)), strict=True):
            if old is not new:
                old.copy_(new)

    return replay
