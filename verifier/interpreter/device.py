"""The device process: serves the submission's requests and the judge's, and keeps the record that counts.

Run as ``python -m verifier.interpreter.device JUDGE_FD CANDIDATE_FD MEMORY_BYTES``. It holds the inputs of the calls made
so far and nothing else: no seed, no oracle, no tolerance.
"""

from __future__ import annotations

import hashlib
import re
import selectors
import socket
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch._ops import OpOverload

from verifier.candidate.channel import Channel, ChannelClosed, Message, ProtocolError
from verifier.candidate.transfer import DTYPES, from_bytes, to_bytes
from verifier.interpreter import library
from verifier.interpreter.canonical import Canonicaliser
from verifier.interpreter.ir import IRError
from verifier.interpreter.kernels import Kernel, OverBudget, Touched
from verifier.interpreter.memory import IllegalAccess, Memory, OutOfDeviceMemory
from verifier.interpreter.numbers import FLOATS, STORED_DTYPES, NotInterpretable, convert, decode, encode
from verifier.interpreter.poison import make_poison

MAXIMUM_TENSORS = 200_000
MAXIMUM_KERNELS = 512
MAXIMUM_EVENTS = 64
PLAIN_NAME = re.compile(r"[\w.$]{1,200}", re.ASCII)
KNOWN_EVENT = re.compile(r"compile|harness|foreign (?:import|library|nvrtc|cpp_extension)(?: \w{1,20})?", re.ASCII)
NARROW_POINTEE = re.compile(r"f16|bf16|f8")
MAXIMUM_GRIDS = 8
MAXIMUM_PROGRAMS = 1 << 22
STEP_BUDGET = 5_000_000
MEMORY_FORMATS = {
    "contiguous_format": torch.contiguous_format,
    "preserve_format": torch.preserve_format,
    "channels_last": torch.channels_last,
}


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


def name_error(error: Exception) -> str:
    """Return the kind under which an exception is reported."""
    if isinstance(error, MemoryError) or "can't allocate memory" in str(error):
        return OutOfDeviceMemory.__name__
    return type(error).__name__


class CandidateService:
    """Answers the submission's process. Every request is untrusted."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.handlers: dict[str, Callable[[Message, bytes], tuple[Message, bytes]]] = {
            "library": self.call_library,
            "load": self.load_kernel,
            "launch": self.launch,
            "upload": self.upload,
            "download": self.download,
            "event": self.note_event,
            "graph": self.use_graph,
            "free": lambda message, data: ({}, b""),
        }

    def answer(self, message: Message, data: bytes) -> tuple[Message, bytes]:
        """Return the answer to one request; faults of the request are part of the answer."""
        device = self.device
        try:
            for handle in message.get("free", ()):
                device.drop_own(handle)
            device.check_fault()
            device.check_open()
            return self.handlers[message["do"]](message, data)
        except Exception as error:  # noqa: BLE001 - whatever a hostile request provokes is its own answer
            if isinstance(error, IllegalAccess):
                device.fault = str(error)
            return {"error": name_error(error), "message": str(error)[:2000]}, b""

    def decode(self, value: Any) -> Any:
        """Turn an encoded argument into a device-side value. Raises NotPermitted."""
        if isinstance(value, list):
            return [self.decode(item) for item in value]
        if not isinstance(value, dict):
            return value
        decoders: dict[str, Callable[[Any], Any]] = {
            "tensor": self.device.tensor,
            "dtype": DTYPES.__getitem__,
            "memory_format": MEMORY_FORMATS.__getitem__,
            "device": lambda _: torch.device("cpu"),
            "layout": lambda _: torch.strided,
        }
        if len(value) != 1 or not value.keys() <= decoders.keys():
            raise library.NotPermitted("an argument is malformed")
        ((kind, content),) = value.items()
        return decoders[kind](content)

    def encode(self, value: Any, known: dict[int, int]) -> Any:
        """Turn a result into its encoded form, keeping the handles of tensors that were arguments."""
        if isinstance(value, torch.Tensor):
            handle = known.get(id(value))
            return {"tensor": self.device.describe(handle if handle is not None else self.device.add(value))}
        if isinstance(value, list | tuple):
            return [self.encode(item, known) for item in value]
        return value

    def call_library(self, message: Message, data: bytes) -> tuple[Message, bytes]:
        known = {id(self.device.tensor(handle)): handle for handle in message["handles"]}
        args, kwargs = (
            self.decode(message["args"]),
            {key: self.decode(value) for key, value in message["kwargs"].items()},
        )
        result = self.device.call_library(message["name"], args, kwargs)
        for flag in message.get("flags", ()):
            self.device.record.flags[str(flag)[:40]] += 1
        return {"result": self.encode(result, known)}, b""

    def load_kernel(self, message: Message, data: bytes) -> tuple[Message, bytes]:
        options = {key: value for key, value in message["options"].items() if isinstance(value, int)}
        name = message["name"]
        if not all(PLAIN_NAME.fullmatch(word) for word in (name, *options)):
            raise library.NotPermitted("a kernel or an option has no plain name")
        return {"kernel": self.device.load(name, data.decode(), options)}, b""

    def launch(self, message: Message, data: bytes) -> tuple[Message, bytes]:
        x, y, z = (int(size) for size in message["grid"])
        arguments, device = list(message["arguments"]), self.device
        number = int(message["kernel"])
        if min(x, y, z) < 1:
            raise library.NotPermitted("a grid size is below 1")
        device.launch(number, (x, y, z), arguments)
        if device.recording is not None:
            device.recording.append(lambda: device.launch(number, (x, y, z), arguments))
        return {}, b""

    def upload(self, message: Message, data: bytes) -> tuple[Message, bytes]:
        tensor = from_bytes(data, message["shape"], message["dtype"]).clone()
        self.device.record.uploaded += tensor.numel()
        return {"tensor": self.device.describe(self.device.add(tensor))}, b""

    def download(self, message: Message, data: bytes) -> tuple[Message, bytes]:
        tensor = self.device.tensor(message["handle"])
        self.device.record.downloaded += tensor.numel()
        return {}, to_bytes(tensor.resolve_conj())

    def note_event(self, message: Message, data: bytes) -> tuple[Message, bytes]:
        kind = message["kind"]
        # Whatever a submission reports beyond these was made up to hide something.
        known = isinstance(kind, str) and KNOWN_EVENT.fullmatch(kind) and len(self.device.events) < MAXIMUM_EVENTS
        self.device.events[kind if known else "protocol_error"] += 1
        return {}, b""

    def use_graph(self, message: Message, data: bytes) -> tuple[Message, bytes]:
        device = self.device
        device.events["graph"] += 1
        match message["action"]:
            case "begin":
                device.recording = []
            case "end":
                device.graphs.append(device.recording or [])
                device.recording = None
                return {"graph": len(device.graphs) - 1}, b""
            case "replay":
                for step in device.graphs[int(message["graph"])]:
                    step()
        return {}, b""


class JudgeService:
    """Answers the judge. Requests are trusted."""

    def __init__(self, device: Device) -> None:
        self.device = device

    def answer(self, message: Message, data: bytes) -> tuple[Message, bytes]:
        """Return the answer to one request."""
        return getattr(self, f"do_{message['do']}")(message, data)

    def do_put(self, message: Message, data: bytes) -> tuple[Message, bytes]:
        described, offset = [], 0
        for item in message["tensors"]:
            tensor = torch.empty(item["shape"], dtype=DTYPES[item["dtype"]])
            size = tensor.numel() * tensor.element_size()
            tensor.copy_(from_bytes(data[offset : offset + size], item["shape"], item["dtype"]))
            offset += size
            handle = self.device.add(tensor)
            self.device.given.add(handle)
            described.append(self.device.describe(handle))
        return {"tensors": described}, b""

    def do_overwrite(self, message: Message, data: bytes) -> tuple[Message, bytes]:
        tensor = self.device.tensor(message["handle"])
        tensor.copy_(from_bytes(data, list(tensor.shape), str(tensor.dtype).removeprefix("torch.")))
        return {}, b""

    def do_describe(self, message: Message, data: bytes) -> tuple[Message, bytes]:
        """Return the descriptions of tensors, None for one that does not exist."""
        known = self.device.tensors
        return {
            "tensors": [self.device.describe(handle) if handle in known else None for handle in message["handles"]]
        }, b""

    def do_read(self, message: Message, data: bytes) -> tuple[Message, bytes]:
        return {}, to_bytes(self.device.tensor(message["handle"]))

    def do_hold(self, message: Message, data: bytes) -> tuple[Message, bytes]:
        """Keep an output alive after the submission drops it; the judge's handle is a new one."""
        held = [self.device.add(self.device.tensor(handle)) for handle in message["handles"]]
        self.device.given.update(held)
        return {"handles": held}, b""

    def do_begin(self, message: Message, data: bytes) -> tuple[Message, bytes]:
        self.device.record, self.device.open = Record(), True
        self.device.ablated = set(message.get("ablate", ()))
        self.device.noise = np.random.default_rng(message["noise"])
        return {}, b""

    def do_open(self, message: Message, data: bytes) -> tuple[Message, bytes]:
        """Let the submission's process work outside a call, while it constructs a model."""
        self.device.open = True
        return {}, b""

    def do_mark(self, message: Message, data: bytes) -> tuple[Message, bytes]:
        """Set the mark that fresh memory carries from now on."""
        self.device.poison = message["poison"]
        return {}, b""

    def do_end(self, message: Message, data: bytes) -> tuple[Message, bytes]:
        record, self.device.ablated, self.device.open = self.device.record, set(), False
        kernels = {
            digest: {
                "launches": usage.launches,
                "programs": usage.programs,
                "operations": usage.operations,
                "grids": usage.grids,
                "narrow_arguments": sorted(usage.narrow_arguments),
            }
            for digest, usage in record.kernels.items()
        }
        return {
            "kernels": kernels,
            "library_calls": dict(record.library_calls),
            "library_operations": dict(record.library_operations),
            "narrowing": dict(record.narrowing),
            "flags": dict(record.flags),
            "uploaded": record.uploaded,
            "downloaded": record.downloaded,
            "events": dict(self.device.events),
            "fault": self.device.fault,
            "uninterpretable": self.device.uninterpretable[:20],
        }, b""

    def do_kernels(self, message: Message, data: bytes) -> tuple[Message, bytes]:
        """Return every kernel that was handed over, its IR in the data, one after another."""
        texts = [loaded.text.encode() for loaded in self.device.kernels]
        listed = [
            {"name": loaded.name, "digest": loaded.digest, "options": loaded.options, "bytes": len(text)}
            for loaded, text in zip(self.device.kernels, texts, strict=True)
        ]
        return {"kernels": listed}, b"".join(texts)


def serve(candidate: Channel, judge: Channel, capacity: int) -> None:
    """Answer both until the judge closes its end."""
    device = Device(capacity)
    services: dict[int, tuple[Channel, CandidateService | JudgeService]] = {
        candidate.connection.fileno(): (candidate, CandidateService(device)),
        judge.connection.fileno(): (judge, JudgeService(device)),
    }
    selector = selectors.DefaultSelector()
    for descriptor in services:
        selector.register(descriptor, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            channel, service = services[key.fd]
            try:
                message, data = channel.receive()
                answer, answer_data = service.answer(message, data)
                channel.send(answer, answer_data)
            except (ChannelClosed, ProtocolError) as error:
                if isinstance(service, JudgeService):
                    return
                if isinstance(error, ProtocolError):
                    device.events["protocol_error"] += 1
                selector.unregister(key.fd)


def main() -> None:
    """Serve on the two inherited sockets."""
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    judge, candidate = (Channel(socket.socket(fileno=int(number))) for number in sys.argv[1:3])
    serve(candidate, judge, int(sys.argv[3]))


if __name__ == "__main__":
    main()
