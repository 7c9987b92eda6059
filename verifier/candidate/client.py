"""The submission's line to the device, and the errors that a real GPU's runtime would raise."""

from __future__ import annotations

import threading

import torch

from verifier.candidate.channel import Channel, Message


class DeviceError(RuntimeError):
    """The device refused a request."""


class KernelDidNotEnd(DeviceError):
    """A kernel took more steps than one call may."""


class KernelRefused(DeviceError):
    """The compiler or the GPU refused a kernel."""


ERRORS: dict[str, type[Exception]] = {
    "CannotCompile": KernelRefused,
    "IndexError": IndexError,
    "NotImplementedError": NotImplementedError,
    "KernelFault": KernelRefused,
    "OutOfDeviceMemory": torch.OutOfMemoryError,
    "OverBudget": KernelDidNotEnd,
    "TypeError": TypeError,
    "ValueError": ValueError,
}


def raise_device_error(answer: Message) -> None:
    """Raise what a real GPU's runtime would raise for a refused request."""
    kind, message = answer["error"], str(answer.get("message", ""))
    prefixes = {
        "OutOfDeviceMemory": "CUDA out of memory. ",
        "IllegalAccess": "CUDA error: an illegal memory access was encountered: ",
    }
    raise ERRORS.get(kind, DeviceError)(f"{prefixes.get(kind, '')}{message}")


class Client:
    """The line of this process to the device. One request at a time, whichever thread asks."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.lock = threading.RLock()
        self.dropped: list[int] = []

    def ask(self, message: Message, data: bytes | memoryview = b"") -> tuple[Message, bytes]:
        """Send a request and return the answer. Raises DeviceError and its kin."""
        with self.lock:
            message["free"], self.dropped = self.dropped, []
            answer, answer_data = self.channel.ask(message, data)
        if "error" in answer:
            raise_device_error(answer)
        return answer, answer_data

    def drop(self, handle: int) -> None:
        """Let the device forget a tensor with the next request."""
        self.dropped.append(handle)
