"""The boxed processes of one verification: candidate, device and compiler. Starts them before PyTorch is needed here."""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from verifier import sandbox
from verifier.candidate.channel import Channel
from verifier.environment import EnvironmentSpecification

PACKAGE = Path(__file__).resolve().parent
SOLUTION_PATH = "/kq/solution.py"
# A submission that keeps all processors busy must not slow down the baseline, nor the verification on the next GPU.
CANDIDATE_LIMITS = sandbox.Limits(memory=6 << 30, niceness=10)
# The submission's process answers with names and words, and with no data.
ANSWER_BYTES = 4 << 20
DEVICE_LIMITS = sandbox.Limits(memory=4 << 30, processes=64)
GPU_LIMITS = sandbox.Limits(memory=48 << 30, processes=256, cpu_seconds=3600)
# Room for two compilations at a time, a compiler and its assembler each.
COMPILE_LIMITS = sandbox.Limits(memory=8 << 30)
# The rest is for the oracle, the baseline and the two contexts.
GPU_MEMORY_SHARE = 0.5


@dataclass(frozen=True)
class Box:
    """A boxed process and the judge's line to it."""

    process: sandbox.Process
    channel: Channel

    def close(self) -> None:
        """Kill the process tree and close the line."""
        self.process.kill("closed")
        self.process.finish()
        self.channel.close()


def describe_device(environment: EnvironmentSpecification) -> str:
    """Return the device as the submission's process sees it, as JSON."""
    device = environment.device
    properties = {
        "max_shared_mem": device.shared_bytes_per_block,
        "max_num_regs": 65536,
        "multiprocessor_count": device.multiprocessors,
        "warpSize": 32,
        "sm_clock_rate": device.maximum_clock_megahertz * 1000,
        "mem_clock_rate": 9_001_000,
        "mem_bus_width": 384,
        "l2_bytes": device.l2_bytes,
        "total_memory": device.memory_bytes,
    }
    name = device.name.removesuffix(" (simulated)")
    kind = "gpu" if environment.timed else "simulated"
    return json.dumps({"name": name, "kind": kind, "capability": device.compute_capability, "properties": properties})


def share_memory(environment: EnvironmentSpecification) -> int:
    """Return the bytes of the device's memory that a submission may use: the trusted processes need some of it too."""
    total = environment.device.memory_bytes
    return int(total * GPU_MEMORY_SHARE) if environment.timed else total


class Boxes:
    """All boxes of one verification. Close them, or use them as a context manager.

    `compiler` is the judge's line to the compile box where the device is simulated; a GPU has that line itself.
    """

    def __init__(
        self,
        solution: Path,
        environment: EnvironmentSpecification,
        slab: int,
        gpu: sandbox.VisibleGpu | None = None,
    ) -> None:
        """Start every box; `slab` is the descriptor of the memory shared with the device, and `gpu` the one to use.

        Raises SandboxUnavailable.
        """
        self.started: list[Box] = []
        self.environment, self.gpu = environment, gpu
        candidate_line, device_line = socket.socketpair()
        compiler_line, device_compiler_line = socket.socketpair()
        lines = [device_line, *([device_compiler_line] if environment.timed else [])]
        try:
            self.device = self.start_device(lines, slab)
            self.candidate = self.start(
                "verifier.candidate.runner",
                ("candidate",),
                CANDIDATE_LIMITS,
                lines=[candidate_line],
                settings=[SOLUTION_PATH, describe_device(environment)],
                shown={SOLUTION_PATH: solution},
                sizes=(ANSWER_BYTES, 0),
            )
            parts = ("candidate", "evidence")
            own = [compiler_line] if environment.timed else []
            self.compiler = self.start("verifier.evidence.compilation", parts, COMPILE_LIMITS, lines=own)
        except BaseException:
            self.close()
            raise
        finally:
            for line in (candidate_line, device_line, compiler_line, device_compiler_line):
                line.close()

    def start_device(self, lines: Sequence[socket.socket], slab: int) -> Box:
        """Start the device process: with the GPU in its box, or with an interpreter."""
        environment = self.environment
        settings = {
            "kind": "gpu" if environment.timed else "simulated",
            "memory_bytes": share_memory(environment),
            "capability": environment.device.compute_capability,
            "l2_bytes": environment.device.l2_bytes,
            "slab": slab,
        }
        parts = ("candidate", "device", "gpu" if environment.timed else "interpreter")
        limits = replace(GPU_LIMITS, gpu=self.gpu) if environment.timed else DEVICE_LIMITS
        module = "verifier.device.service"
        return self.start(module, parts, limits, lines=lines, settings=settings, descriptors=[slab])

    def start(  # noqa: PLR0913 - all named at the call
        self,
        module: str,
        parts: Sequence[str],
        limits: sandbox.Limits,
        *,
        lines: Sequence[socket.socket],
        settings: dict[str, Any] | list[str] | None = None,
        shown: dict[str, Path] | None = None,
        descriptors: Sequence[int] = (),
        sizes: tuple[int, ...] = (),
    ) -> Box:
        """Start one of the verifier's modules in a box that shows only `parts` of this package.

        Its arguments are the numbers of the judge's line and of `lines`, or settings as JSON that hold them. `sizes`
        limit what it may answer.
        """
        end, inner_end = socket.socketpair()
        folder = f"{sandbox.RUNNER_FOLDER}/verifier"
        visible = {f"{folder}/{name}": PACKAGE / name for name in ("__init__.py", *parts)}
        numbers = [inner_end.fileno(), *(line.fileno() for line in lines)]
        arguments = (
            [json.dumps({**settings, "lines": numbers})]
            if isinstance(settings, dict)
            else [*map(str, numbers), *(settings or [])]
        )
        command = [*sandbox.python_command(), "-m", module, *arguments]
        try:
            process = sandbox.start(
                command, shown={**visible, **(shown or {})}, limits=limits, descriptors=[*numbers, *descriptors]
            )
        finally:
            inner_end.close()
        box = Box(process, Channel(end, *sizes))
        self.started.append(box)
        return box

    def close(self) -> None:
        """Kill every process tree."""
        for box in self.started:
            box.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()
