"""What the judge asks of the reference worker. Tensors pass through a slab that only these two share."""

from __future__ import annotations

import time
from typing import Any

import torch

from verifier.candidate.channel import Message
from verifier.candidate.slab import Slab
from verifier.faults import InfrastructureFault
from verifier.session import Tensors
from verifier.task import Task
from verifier.worker import Worker

REFERENCE_SECONDS = 120.0
# Compiling a whole model takes minutes.
BASELINE_SECONDS = 900.0


class Reference:
    """The task's own PyTorch code, asked for parameters, results and times."""

    def __init__(self, task: Task, worker: Worker, slab: Slab, where: torch.device) -> None:
        self.task, self.channel, self.slab, self.where = task, worker.channel, slab, where
        self.warming = False

    def warm_up(self, distribution: str) -> None:
        """Let the worker compile and warm up both sides while the judge goes on. Raises InfrastructureFault."""
        self.channel.deadline = time.monotonic() + REFERENCE_SECONDS
        try:
            self.channel.send({"do": "warm_up", "distribution": distribution})
        except Exception as error:
            raise InfrastructureFault(f"the reference worker failed: {type(error).__name__}: {error}") from error
        self.warming = True

    def settle(self) -> None:
        """Wait until nothing that was asked for is under way. Raises InfrastructureFault."""
        if not self.warming:
            return
        self.warming = False
        self.channel.deadline = time.monotonic() + BASELINE_SECONDS
        try:
            answer, _ = self.channel.receive()
        except Exception as error:
            raise InfrastructureFault(f"the reference worker failed: {type(error).__name__}: {error}") from error
        self.check(answer)

    def ask(self, message: Message, seconds: float = REFERENCE_SECONDS) -> Message:
        """Ask the worker. Raises InfrastructureFault."""
        self.settle()
        try:
            self.channel.deadline = time.monotonic() + seconds
            return self.check(self.channel.ask(message)[0])
        except InfrastructureFault:
            raise
        except Exception as error:
            raise InfrastructureFault(f"the reference worker failed: {type(error).__name__}: {error}") from error

    @staticmethod
    def check(answer: Message) -> Message:
        """Return an answer that is none of failure. Raises InfrastructureFault."""
        if "error" in answer:
            raise InfrastructureFault(f"the reference worker failed: {answer['error']}")
        return answer

    def prepare(self, dims: dict[str, int], seed: int, *, keep: bool) -> Tensors:
        """Return a seeded state of the reference; with `keep`, it also takes that state itself."""
        message = {"do": "prepare", "task": str(self.task.path), "dims": dims, "seed": seed, "keep": keep}
        answer = self.ask(message)
        return self.slab.read(answer["state"], self.where)

    def run(self, inputs: Tensors) -> tuple[list[torch.Tensor], dict[str, int]]:
        """Return the eager reference's outputs and its operations by operator."""
        answer = self.ask({"do": "run", "inputs": self.slab.write(inputs)})
        return list(self.slab.read(answer["outputs"], self.where).values()), answer["operations"]

    def profile(self, side: str, distribution: str) -> float:
        """Return the milliseconds of all work on the GPU in one call of a side, by the profiler."""
        message = {"do": "profile", "side": side, "distribution": distribution, "seed": 0}
        return float(self.ask(message, BASELINE_SECONDS)["milliseconds"])

    def time(self, side: str, distribution: str, seeds: list[int], *, cold: bool) -> dict[str, Any]:
        """Time one call a seed of the `eager` or `compiled` reference; return milliseconds and what was pinned."""
        message = {"do": "time", "side": side, "distribution": distribution, "seeds": seeds, "cold": cold}
        return self.ask(message, BASELINE_SECONDS)
