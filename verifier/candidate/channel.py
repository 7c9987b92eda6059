"""Framed messages between the verifier's processes: a JSON object and a block of raw bytes.

Nothing is ever unpickled. A message that is too large or not JSON ends the connection.
"""

from __future__ import annotations

import json
import re
import socket
import struct
import time
from typing import Any

# No sender of ours escapes a surrogate; one in a message would break whoever prints it.
LONE_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
HEADER = struct.Struct("<II")
MAXIMUM_JSON = 16 << 20
MAXIMUM_BYTES = 1 << 30

Message = dict[str, Any]


class ChannelClosed(Exception):
    """The other end is gone."""


class ProtocolError(Exception):
    """The other end sent something that is no message."""


class Channel:
    """One end of a stream socket. With a `deadline` on the monotonic clock, waiting past it raises TimeoutError."""

    def __init__(
        self, connection: socket.socket, maximum_json: int = MAXIMUM_JSON, maximum_bytes: int = MAXIMUM_BYTES
    ) -> None:
        """Talk over a socket; what the other end sends may have at most so many bytes."""
        self.connection = connection
        self.maximum_json, self.maximum_bytes = maximum_json, maximum_bytes
        self.deadline: float | None = None

    def limit(self) -> None:
        """Give the socket what is left until the deadline."""
        self.connection.settimeout(None if self.deadline is None else max(0.001, self.deadline - time.monotonic()))

    def send(self, message: Message, data: bytes | memoryview = b"") -> None:
        """Send one message. Raises ChannelClosed or TimeoutError."""
        text = json.dumps(message, ensure_ascii=False).encode(errors="replace")
        self.limit()
        try:
            self.connection.sendall(HEADER.pack(len(text), len(data)) + text)
            if len(data):
                self.connection.sendall(data)
        except (BrokenPipeError, ConnectionError) as error:
            raise ChannelClosed from error

    def receive(self) -> tuple[Message, bytes]:
        """Return the next message. Raises ChannelClosed, ProtocolError or TimeoutError."""
        lengths = HEADER.unpack(self.read(HEADER.size))
        if lengths[0] > self.maximum_json or lengths[1] > self.maximum_bytes:
            raise ProtocolError(f"a message of {sum(lengths)} bytes is too large")
        text, data = self.read(lengths[0]), self.read(lengths[1])
        try:
            message = json.loads(LONE_SURROGATE.sub(rb"\\ufffd", text))
        except (ValueError, RecursionError) as error:
            raise ProtocolError("a message is not JSON") from error
        if not isinstance(message, dict):
            raise ProtocolError("a message is not an object")
        return message, data

    def ask(self, message: Message, data: bytes | memoryview = b"") -> tuple[Message, bytes]:
        """Send a message and return the answer."""
        self.send(message, data)
        return self.receive()

    def read(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            self.limit()
            try:
                part = self.connection.recv(min(size - len(parts), 1 << 20))
            except ConnectionError as error:
                raise ChannelClosed from error
            if not part:
                raise ChannelClosed
            parts += part
        return bytes(parts)

    def close(self) -> None:
        """Close this end."""
        self.connection.close()
