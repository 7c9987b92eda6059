"""The device's line to the compile box."""

from __future__ import annotations

import time
from typing import Any

from verifier.candidate.channel import Channel, ChannelClosed, Message, ProtocolError
from verifier.device.faults import CannotCompile

COMPILE_SECONDS = 300.0


class CompileLine:
    """Asks for machine code of kernels, one at a time. Equal requests are compiled once."""

    def __init__(self, channel: Channel, capability: int) -> None:
        self.channel, self.capability = channel, capability
        self.known: dict[str, tuple[Message, bytes]] = {}

    def ask(self, message: Message, data: bytes) -> tuple[Message, bytes]:
        """Ask the compile box. Raises CannotCompile when it is lost or takes too long."""
        self.channel.deadline = time.monotonic() + COMPILE_SECONDS
        try:
            return self.channel.ask(message, data)
        except (ChannelClosed, ProtocolError, TimeoutError) as error:
            raise CannotCompile(f"the compile box failed: {type(error).__name__}") from error

    def compile(self, text: str, options: dict[str, Any]) -> tuple[Message, bytes]:
        """Return what a launcher must know of a kernel, and its machine code. Raises CannotCompile."""
        key = f"{sorted(options.items())}\n{text}"
        if key not in self.known:
            data = text.encode()
            job = {"bytes": len(data), "options": options}
            message = {"do": "compile", "kernels": [job], "capability": self.capability}
            answer, image = self.ask(message, data)
            self.known[key] = answer["results"][0], image
        compiled, image = self.known[key]
        if "error" in compiled:
            raise CannotCompile(compiled["error"])
        return compiled, image

    def disassemble(self, image: bytes) -> str:
        """Return the text of machine code. Raises CannotCompile."""
        answer, text = self.ask({"do": "disassemble"}, image)
        if "error" in answer:
            raise CannotCompile(answer["error"])
        return text.decode(errors="replace")
