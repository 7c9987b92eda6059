"""The CUDA binary tools that come with Triton."""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import triton
import triton.backends.nvidia

BINARIES = Path(triton.backends.nvidia.__file__).parent / "bin"


def read_compiler() -> None:
    """Let Triton take the fingerprint of its own files, which it does once a process and which takes a second."""
    # Newer versions keep it in another module.
    modules: list[Any] = [triton.compiler.compiler, triton.runtime.cache]
    next(module.triton_key for module in modules if hasattr(module, "triton_key"))()


def run_on_cubin(tool: str, option: str, cubin: bytes) -> str:
    """Return what `tool` prints for a compiled kernel."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        return subprocess.run([BINARIES / tool, option, file.name], capture_output=True, text=True, check=False).stdout


def read_resource_usage(cubin: bytes) -> tuple[int, int]:
    """Return registers a thread and bytes of stack a thread (spills live there)."""
    match = re.search(r"REG:(\d+) STACK:(\d+)", run_on_cubin("cuobjdump", "--dump-resource-usage", cubin))
    return (int(match[1]), int(match[2])) if match else (0, 0)


def disassemble(cubin: bytes) -> str:
    """Return the machine code as text."""
    return run_on_cubin("nvdisasm", "-c", cubin)
