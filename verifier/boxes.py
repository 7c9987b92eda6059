"""The boxed processes of one verification: candidate, device and compiler. Starts them before PyTorch is needed here."""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from verifier import sandbox
from verifier.candidate.channel import Channel
from verifier.environment import EnvironmentSpecification

PACKAGE = Path(__file__).resolve().parent
SOLUTION_PATH = "/kq/solution.py"
DEVICE_LIMITS = sandbox.Limits(memory=4 << 30, processes=64)


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


def start_box(  # noqa: PLR0913 - all named at the call
    module: str,
    arguments: Sequence[str],
    parts: Sequence[str],
    limits: sandbox.Limits,
    *,
    shown: dict[str, Path] | None = None,
    line: socket.socket | None = None,
) -> Box:
    """Start one of the verifier's modules in a box that shows only `parts` of this package.

    Its arguments are the judge's line, the other line when there is one, and `arguments`.
    """
    end, inner_end = socket.socketpair()
    folder = f"{sandbox.RUNNER_FOLDER}/verifier"
    visible = {f"{folder}/{name}": PACKAGE / name for name in ("__init__.py", *parts)}
    descriptors = [inner_end.fileno()] + ([line.fileno()] if line else [])
    command = [*sandbox.python_command(), "-m", module, *map(str, descriptors), *arguments]
    try:
        process = sandbox.start(command, shown={**visible, **(shown or {})}, limits=limits, descriptors=descriptors)
    finally:
        inner_end.close()
    return Box(process, Channel(end))


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
    return json.dumps({"name": name, "capability": device.compute_capability, "properties": properties})


class Boxes:
    """All boxes of one verification. Close them, or use them as a context manager."""

    def __init__(self, solution: Path, environment: EnvironmentSpecification) -> None:
        """Start every box. Raises SandboxUnavailable."""
        self.started: list[Box] = []
        line, device_line = socket.socketpair()
        try:
            self.device = self.start(
                "verifier.interpreter.service",
                [str(environment.device.memory_bytes)],
                ("candidate", "interpreter"),
                DEVICE_LIMITS,
                line=device_line,
            )
            self.candidate = self.start(
                "verifier.candidate.runner",
                [SOLUTION_PATH, describe_device(environment)],
                ("candidate",),
                sandbox.Limits(),
                shown={SOLUTION_PATH: solution},
                line=line,
            )
            self.compiler = self.start("verifier.evidence.compilation", [], ("candidate", "evidence"), sandbox.Limits())
        except BaseException:
            self.close()
            raise
        finally:
            line.close()
            device_line.close()

    def start(  # noqa: PLR0913 - all named at the call
        self,
        module: str,
        arguments: Sequence[str],
        parts: Sequence[str],
        limits: sandbox.Limits,
        *,
        shown: dict[str, Path] | None = None,
        line: socket.socket | None = None,
    ) -> Box:
        box = start_box(module, arguments, parts, limits, shown=shown, line=line)
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
