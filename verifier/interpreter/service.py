"""The device process: answers the submission's requests, which are untrusted, and the judge's.

Run as ``python -m verifier.interpreter.service JUDGE_FD CANDIDATE_FD MEMORY_BYTES``.
"""

from __future__ import annotations

import re
import selectors
import socket
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from verifier.candidate.channel import Channel, ChannelClosed, Message, ProtocolError
from verifier.candidate.transfer import DTYPES, from_bytes, to_bytes
from verifier.interpreter import library
from verifier.interpreter.device import Device, Record
from verifier.interpreter.memory import IllegalAccess, OutOfDeviceMemory

MAXIMUM_EVENTS = 64
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
