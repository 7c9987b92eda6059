"""Compiles the Triton IR that ran to machine code, in a box of its own.

Run as ``python -m verifier.evidence.compilation FD``. The IR comes from a submission, so a compiler crash is
expected now and then: every kernel is compiled in a forked child.
"""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import socket
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from verifier.candidate.channel import Channel, ChannelClosed, Message

COMPILE_SECONDS = 240
# What one process of a compilation may allocate; a real kernel takes a few hundred MB.
COMPILE_BYTES = 1536 << 20
PARALLEL = 2
# A kernel with more than a few hundred thousand instructions is a bomb.
LONGEST_TEXT = 48 << 20
PROTOTYPE = r"^\s*tt\.func\s+(?:public\s+)?(@\w+)(\([^\n]*\))\s*(?:attributes \{[^\n]*\})?\s+\{\s*$"

_ENTRY = re.compile(r"\.entry\s+[\w$.]+\s*\((.*?)\)", re.DOTALL)

Compiled = tuple[Message, bytes]


def count_entry_parameters(ptx: str) -> int:
    """Return how many parameters the compiled kernel takes: those of the IR, then the compiler's own scratch pointers."""
    match = _ENTRY.search(ptx)
    return match[1].count(".param") if match else 0


def compile_kernel(text: str, options: dict[str, Any], capability: int) -> Compiled:
    """Return what a launcher must know of one kernel's IR, and its machine code."""
    import triton
    from triton.backends.compiler import GPUTarget

    from verifier.candidate.binaries import read_resource_usage

    with tempfile.TemporaryDirectory() as folder:
        os.environ["TRITON_CACHE_DIR"] = f"{folder}/cache"
        path = Path(folder) / "kernel.ttir"
        path.write_text(text)
        # The pattern of older versions takes exponential time on a long kernel.
        triton.compiler.compiler.prototype_pattern["ttir"] = PROTOTYPE
        compiled = triton.compile(str(path), target=GPUTarget("cuda", capability, 32), options=options)
        image = compiled.asm["cubin"]
        registers, spilled = read_resource_usage(image)
        metadata = compiled.metadata
        described = {
            "registers": registers,
            "spilled": spilled,
            "shared": metadata.shared,
            "name": metadata.name,
            "warps": metadata.num_warps,
            "clusters": metadata.num_ctas,
            "scratch": getattr(metadata, "global_scratch_size", 0),
            "cooperative": getattr(metadata, "launch_cooperative_grid", False),
            "programmatic": getattr(metadata, "launch_pdl", False),
            "descriptors": list(getattr(metadata, "tensordesc_meta", None) or ()),
            "parameters": count_entry_parameters(compiled.asm["ptx"]),
        }
        return described, image


def compile_forked(text: str, options: dict[str, Any], capability: int) -> Compiled:
    """Compile in a child process, so that a compiler that dies takes nothing with it."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(COMPILE_SECONDS)
        resource.setrlimit(resource.RLIMIT_DATA, (COMPILE_BYTES, COMPILE_BYTES))
        image = b""
        try:
            described, image = compile_kernel(text, options, capability)
        except BaseException as error:  # noqa: BLE001 - whatever the compiler raises is the answer
            described = {"error": f"{type(error).__name__}: {error}"[:1000]}
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(json.dumps(described).encode() + b"\n" + image)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        header, _, image = pipe.read().partition(b"\n")
    _, status = os.waitpid(child, 0)
    if not header:
        ending = f"signal {status & 127}" if status & 127 else f"status {status >> 8}"
        return {"error": f"the compiler ended with {ending}"}, b""
    return dict(json.loads(header)), image


def split(data: bytes, lengths: list[int]) -> list[bytes]:
    """Return the parts of `data`, one after another."""
    parts, offset = [], 0
    for length in lengths:
        parts.append(data[offset : offset + length])
        offset += length
    return parts


class CompileService:
    """Answers requests with one result a kernel."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self.pool = pool

    def compile(self, message: Message, data: bytes) -> tuple[Message, bytes]:
        """Compile kernels: what a launcher must know of each, and in the data the machine code of one after another."""
        texts = split(data, [kernel["bytes"] for kernel in message["kernels"]])
        jobs = [
            (text.decode(), kernel["options"], message["capability"])
            for text, kernel in zip(texts, message["kernels"], strict=True)
        ]
        results = list(self.pool.map(lambda job: compile_forked(*job), jobs))
        described = [{**result, "image_bytes": len(image)} for result, image in results]
        return {"results": described}, b"".join(image for _, image in results)

    def disassemble(self, message: Message, data: bytes) -> tuple[Message, bytes]:  # noqa: ARG002 - as the others
        """Return the text of one kernel's machine code in the data, or an error for one that is too long to be read."""
        from verifier.candidate.binaries import disassemble

        text = disassemble(data).encode()
        if len(text) > LONGEST_TEXT:
            return {"error": f"the machine code has more than {LONGEST_TEXT >> 20} MiB of text"}, b""
        return {}, text


def main() -> None:
    """Answer until the other end hangs up."""
    from verifier.candidate.binaries import read_compiler

    # Once here, so that every child has it.
    read_compiler()
    # The last line is that of whoever asks: the judge, or a GPU.
    channel = Channel(socket.socket(fileno=int(sys.argv[-1])))
    with ThreadPoolExecutor(PARALLEL) as pool:
        service = CompileService(pool)
        try:
            while True:
                message, data = channel.receive()
                channel.send(*getattr(service, message["do"])(message, data))
        except ChannelClosed:
            return


if __name__ == "__main__":
    main()
