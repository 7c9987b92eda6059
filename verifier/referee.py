"""The judge's line to the reference worker."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch

from verifier.candidate.channel import Channel, Message
from verifier.candidate.slab import Slab
from verifier.environment import EnvironmentSpecification
from verifier.faults import InfrastructureFault
from verifier.session import Tensors
from verifier.task import Task

REFERENCE_SECONDS = 120.0
# Compiling a whole model takes minutes.
BASELINE_SECONDS = 900.0


def find_cache_folder() -> Path:
    """Return where compiled baselines are kept: `KQ_CACHE` when set, else the user's cache folder."""
    configured = os.environ.get("KQ_CACHE")
    return Path(configured) if configured else Path.home() / ".cache" / "kernelquest"


class Reference:
    """Starts the worker with the task's own PyTorch code and asks it. Tensors pass through a slab of its own."""

    def __init__(self, task: Task, environment: EnvironmentSpecification, slab: Slab, where: torch.device) -> None:
        """Start the worker. Close it, or use it as a context manager."""
        self.task, self.slab, self.where = task, slab, where
        end, worker_end = socket.socketpair()
        settings = {
            "line": worker_end.fileno(),
            "slab": slab.descriptor,
            "device": str(where),
            "l2_bytes": environment.device.l2_bytes,
        }
        cache = find_cache_folder() / environment.slug
        variables = {
            **os.environ,
            "TORCHINDUCTOR_CACHE_DIR": str(cache / "inductor"),
            "TRITON_CACHE_DIR": str(cache / "triton"),
            "NVIDIA_TF32_OVERRIDE": "0",
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", "verifier.reference", json.dumps(settings)],
            pass_fds=[worker_end.fileno(), slab.descriptor],
            stdin=subprocess.DEVNULL,
            env=variables,
        )
        worker_end.close()
        self.channel = Channel(end)

    def ask(self, message: Message, seconds: float = REFERENCE_SECONDS) -> Message:
        """Ask the worker. Raises InfrastructureFault."""
        self.channel.deadline = time.monotonic() + seconds
        try:
            answer, _ = self.channel.ask(message)
        except Exception as error:
            raise InfrastructureFault(f"the reference worker failed: {type(error).__name__}: {error}") from error
        if "error" in answer:
            raise InfrastructureFault(f"the reference worker failed: {answer['error']}")
        return answer

    def prepare(self, dims: dict[str, int], seed: int) -> Tensors:
        """Return a seeded state of the reference."""
        answer = self.ask({"do": "prepare", "task": str(self.task.path), "dims": dims, "seed": seed})
        return self.slab.read(answer["state"], self.where)

    def run(self, inputs: Tensors) -> tuple[list[torch.Tensor], dict[str, int]]:
        """Return the eager reference's outputs and its operations by operator."""
        answer = self.ask({"do": "run", "inputs": self.slab.write(inputs)})
        return list(self.slab.read(answer["outputs"], self.where).values()), answer["operations"]

    def time(self, side: str, distribution: str, seeds: list[int], *, cold: bool) -> dict[str, Any]:
        """Time one call a seed of the `eager` or `compiled` reference; return milliseconds and what was pinned."""
        message = {"do": "time", "side": side, "distribution": distribution, "seeds": seeds, "cold": cold}
        return self.ask(message, BASELINE_SECONDS)

    def close(self) -> None:
        """End the worker."""
        self.channel.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
