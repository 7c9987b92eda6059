"""Compiles the Triton IR that ran to machine code, in a box of its own.

Run as ``python -m verifier.evidence.compilation FD``. The IR comes from a submission, so a compiler crash is
expected now and then: every kernel is compiled in a forked child.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from verifier.candidate.channel import Channel, ChannelClosed, Message

COMPILE_SECONDS = 240
PARALLEL = 2
PROTOTYPE = r"^\s*tt\.func\s+(?:public\s+)?(@\w+)(\([^\n]*\))\s*(?:attributes \{[^\n]*\})?\s+\{\s*$"


def compile_kernel(text: str, options: dict[str, Any], capability: int) -> Message:
    """Return registers, spills, shared memory and machine code of one kernel's IR."""
    import triton
    from triton.backends.compiler import GPUTarget

    from verifier.candidate.binaries import disassemble, read_resource_usage

    with tempfile.TemporaryDirectory() as folder:
        os.environ["TRITON_CACHE_DIR"] = f"{folder}/cache"
        path = Path(folder) / "kernel.ttir"
        path.write_text(text)
        # Triton's own pattern takes exponential time on a long kernel.
        triton.compiler.compiler.prototype_pattern["ttir"] = PROTOTYPE
        compiled = triton.compile(str(path), target=GPUTarget("cuda", capability, 32), options=options)
        cubin = compiled.asm["cubin"]
        registers, spilled = read_resource_usage(cubin)
        return {
            "registers": registers,
            "spilled": spilled,
            "shared": compiled.metadata.shared,
            "sass": disassemble(cubin),
        }


def compile_forked(text: str, options: dict[str, Any], capability: int) -> Message:
    """Compile in a child process, so that a compiler that dies takes nothing with it."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(COMPILE_SECONDS)
        try:
            result = compile_kernel(text, options, capability)
        except BaseException as error:  # noqa: BLE001 - whatever the compiler raises is the answer
            result = {"error": f"{type(error).__name__}: {error}"[:1000]}
        with os.fdopen(writing, "w") as pipe:
            json.dump(result, pipe)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        answer = pipe.read()
    _, status = os.waitpid(child, 0)
    if not answer:
        return {"error": f"the compiler ended with signal {status & 127}"}
    return dict(json.loads(answer))


def main() -> None:
    """Answer every request with one result a kernel, until the judge hangs up."""
    import triton  # noqa: F401 - imported once here, so that every child has it

    channel = Channel(socket.socket(fileno=int(sys.argv[1])))
    with ThreadPoolExecutor(PARALLEL) as pool:
        try:
            while True:
                message, data = channel.receive()
                jobs, offset = [], 0
                for kernel in message["kernels"]:
                    jobs.append(
                        (data[offset : offset + kernel["bytes"]].decode(), kernel["options"], message["capability"])
                    )
                    offset += kernel["bytes"]
                channel.send({"results": list(pool.map(lambda job: compile_forked(*job), jobs))})
        except ChannelClosed:
            return


if __name__ == "__main__":
    main()
