"""The device process: answers the submission's requests, which are untrusted, and the judge's.

Run as ``python -m verifier.device.service SETTINGS``: the kind of device, the inherited lines and the slab, as JSON.
"""

from __future__ import annotations

import json
import re
import selectors
import socket
import sys
from collections.abc import Callable
from typing import Any

import torch

from verifier.candidate.channel import Channel, ChannelClosed, Message, ProtocolError
from verifier.candidate.slab import Slab
from verifier.candidate.transfer import DTYPES, from_bytes, to_bytes
from verifier.device import library
from verifier.device.costs import count_elements
from verifier.device.device import Device, Record
from verifier.device.faults import IllegalAccess, OutOfDeviceMemory

MAXIMUM_EVENTS = 64
MESSAGE_CAP = 2_000
CHARACTERS_A_VALUE = 64
PLAIN_NAME = re.compile(r"[\w.$]{1,200}", re.ASCII)
KNOWN_EVENT = re.compile(r"compile|harness|foreign (?:import|library|nvrtc|cpp_extension)(?: \w{1,20})?", re.ASCII)
MEMORY_FORMATS = {
    "contiguous_format": torch.contiguous_format,
    "preserve_format": torch.preserve_format,
    "channels_last": torch.channels_last,
}


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
            "synchronise": self.synchronise,
            "mark": self.mark,
            "measure": self.measure,
            "bench": self.bench,
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
            text = str(error)[:MESSAGE_CAP]
            if message.get("do") == "library":
                # The words of such an error may tell values of the device's.
                device.record.downloaded += 1 + len(text) // CHARACTERS_A_VALUE
            return {"error": name_error(error), "message": text}, b""

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
            "device": lambda _: self.device.where,
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
            return {"tensor": self.device.describe_tensor(handle if handle is not None else self.device.add(value))}
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
        number = self.device.load(name, data.decode(), options)
        return {"kernel": number, **self.device.describe_kernel(self.device.kernels[number])}, b""

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
        tensor = from_bytes(data, message["shape"], message["dtype"]).to(self.device.where, copy=True)
        self.device.record.uploaded += count_elements(tensor)
        return {"tensor": self.device.describe_tensor(self.device.add(tensor))}, b""

    def download(self, message: Message, data: bytes) -> tuple[Message, bytes]:
        tensor = self.device.tensor(message["handle"])
        self.device.record.downloaded += count_elements(tensor)
        self.device.synchronise()
        return {}, to_bytes(tensor.resolve_conj().cpu())

    def synchronise(self, message: Message, data: bytes) -> tuple[Message, bytes]:
        self.device.synchronise()
        return {}, b""

    def mark(self, message: Message, data: bytes) -> tuple[Message, bytes]:
        return {"mark": self.device.mark()}, b""

    def measure(self, message: Message, data: bytes) -> tuple[Message, bytes]:
        first, second = int(message["first"]), int(message["second"])
        return {"milliseconds": self.device.measure_marks(first, second)}, b""

    def bench(self, message: Message, data: bytes) -> tuple[Message, bytes]:
        """Time what is asked for between two requests, for an autotuner."""
        if message["action"] == "begin":
            self.device.begin_bench()
            return {}, b""
        return {"milliseconds": self.device.end_bench()}, b""

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
    """Answers the judge. Requests are trusted; tensors pass through the slab."""

    def __init__(self, device: Device, slab: Slab) -> None:
        self.device, self.slab = device, slab
        self.mode = "checked"
        self.mark = 0

    def answer(self, message: Message, data: bytes) -> tuple[Message, bytes]:
        """Return the answer to one request. Illegal work of the submission's shows here at the latest."""
        try:
            return getattr(self, f"do_{message['do']}")(message)
        except (IllegalAccess, OutOfDeviceMemory) as error:
            self.device.fault = self.device.fault or str(error)
            return {"error": type(error).__name__, "message": str(error)[:2000]}, b""

    def do_mark(self, message: Message) -> tuple[Message, bytes]:
        """Set the mark that fresh memory carries in checked calls."""
        self.device.poison = self.mark = message["poison"]
        return {"device": self.device.describe()}, b""

    def do_put(self, message: Message) -> tuple[Message, bytes]:
        described = []
        for place in message["tensors"]:
            handle = self.device.add(self.slab.read([place], self.device.where)[place["name"]])
            self.device.given.add(handle)
            described.append(self.device.describe_tensor(handle))
        return {"tensors": described}, b""

    def do_overwrite(self, message: Message) -> tuple[Message, bytes]:
        for handle, place in zip(message["handles"], message["tensors"], strict=True):
            self.device.tensor(handle).copy_(self.slab.find(place))
        self.device.synchronise()
        return {}, b""

    def do_describe(self, message: Message) -> tuple[Message, bytes]:
        """Return the descriptions of tensors, None for one that does not exist."""
        known = self.device.tensors
        listed = [self.device.describe_tensor(handle) if handle in known else None for handle in message["handles"]]
        return {"tensors": listed}, b""

    def do_read(self, message: Message) -> tuple[Message, bytes]:
        self.device.synchronise()
        tensors = {str(handle): self.device.tensor(handle).resolve_conj() for handle in message["handles"]}
        return {"tensors": self.slab.write(tensors)}, b""

    def do_hold(self, message: Message) -> tuple[Message, bytes]:
        """Keep an output alive after the submission drops it; the judge's handle is a new one."""
        # An alias: the submission may reshape its own tensor in place.
        held = [self.device.add(self.device.tensor(handle).detach()) for handle in message["handles"]]
        self.device.given.update(held)
        return {"handles": held}, b""

    def do_drop(self, message: Message) -> tuple[Message, bytes]:
        """Forget tensors that the judge gave or held."""
        for handle in message["handles"]:
            self.device.drop(handle)
        return {}, b""

    def do_begin(self, message: Message) -> tuple[Message, bytes]:
        device, self.mode = self.device, message["mode"]
        device.look_away(message.get("inputs", ()))
        device.record, device.open = Record(), True
        device.moved = set(message.get("move", ()))
        device.poison = self.mark if self.mode == "checked" else None
        device.ablated, device.ablate_integers = set(message.get("ablate", ())), message.get("integers", False)
        if device.ablated:
            device.reseed(message["noise"])
        device.begin(self.mode, message.get("hold", 0.0))
        return {}, b""

    def do_open(self, message: Message) -> tuple[Message, bytes]:
        """Let the submission's process work outside a call, while it constructs a model."""
        self.device.look_away(())
        self.device.record, self.device.open = Record(), True
        return {}, b""

    def do_end(self, message: Message) -> tuple[Message, bytes]:
        record, self.device.ablated, self.device.open = self.device.record, set(), False
        self.device.moved = set()
        measured = self.device.end(self.mode)
        self.mode = "checked"
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
            "replaced": record.replaced,
            "events": dict(self.device.events),
            "fault": self.device.fault,
            "uninterpretable": self.device.uninterpretable[:20],
            "measured": measured,
        }, b""

    def do_kernels(self, message: Message) -> tuple[Message, bytes]:
        """Return every kernel that was handed over, its IR in the data, one after another."""
        self.device.words.settle()
        texts = [loaded.text.encode() for loaded in self.device.kernels]
        listed = [
            {
                "name": loaded.name,
                "digest": loaded.digest,
                "options": loaded.options,
                "bytes": len(text),
                "own_words": sorted(self.device.words.own.get(loaded.digest, ())),
            }
            for loaded, text in zip(self.device.kernels, texts, strict=True)
        ]
        return {"kernels": listed}, b"".join(texts)

    def do_machine_code(self, message: Message) -> tuple[Message, bytes]:
        """Return what a loaded kernel uses, and the text of its machine code in the data."""
        return self.device.read_machine_code(message["digest"])


def serve(candidate: Channel, judge: Channel, device: Device, slab: Slab) -> None:
    """Answer both until the judge closes its end."""
    services: dict[int, tuple[Channel, CandidateService | JudgeService]] = {
        candidate.connection.fileno(): (candidate, CandidateService(device)),
        judge.connection.fileno(): (judge, JudgeService(device, slab)),
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


def make_device(settings: Message, compiler: Channel | None) -> tuple[Device, bool]:
    """Return the device that the settings ask for, and whether its slab is pinned."""
    if settings["kind"] == "simulated":
        from verifier.interpreter.simulated import SimulatedDevice  # noqa: PLC0415 - the other kind is not in its box

        return SimulatedDevice(settings["memory_bytes"]), False
    from verifier.gpu.compiling import CompileLine  # noqa: PLC0415
    from verifier.gpu.device import GpuDevice  # noqa: PLC0415

    assert compiler is not None
    line = CompileLine(compiler, settings["capability"])
    return GpuDevice(line, settings["l2_bytes"], settings["memory_bytes"]), True


def main() -> None:
    """Serve on the inherited sockets."""
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    settings = json.loads(sys.argv[1])
    judge, candidate, *others = (Channel(socket.socket(fileno=number)) for number in settings["lines"])
    device, pinned = make_device(settings, others[0] if others else None)
    serve(candidate, judge, device, Slab(settings["slab"], pinned=pinned))


if __name__ == "__main__":
    main()
