"""Starts the reference worker: the task's own PyTorch code in a process of its own. Needs no PyTorch itself."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from verifier.candidate.channel import Channel
from verifier.environment import EnvironmentSpecification
from verifier.task import Task


def find_cache_folder() -> Path:
    """Return where compiled baselines are kept: `KQ_CACHE` when set, else the user's cache folder."""
    configured = os.environ.get("KQ_CACHE")
    return Path(configured) if configured else Path.home() / ".cache" / "kernelquest"


class Worker:
    """The process, the judge's line to it, and the descriptor of the memory shared with it."""

    def __init__(self, environment: EnvironmentSpecification, size: int) -> None:
        """Start it, with `size` bytes of shared memory."""
        self.slab = os.memfd_create("reference")
        os.ftruncate(self.slab, size)
        end, worker_end = socket.socketpair()
        settings = {
            "line": worker_end.fileno(),
            "slab": self.slab,
            "device": "cuda:0" if environment.timed else "cpu",
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
            pass_fds=[worker_end.fileno(), self.slab],
            stdin=subprocess.DEVNULL,
            env=variables,
        )
        worker_end.close()
        self.channel = Channel(end)

    def close(self) -> None:
        """End the worker."""
        self.channel.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.slab)


class Workers:
    """Reference workers, lent to one verification at a time. Those of a task serve its next verification too.

    The last few are kept idle: each holds a model and a part of the GPU's memory.
    """

    def __init__(self, most_idle: int = 4) -> None:
        self.idle: list[tuple[tuple[str, str], Worker]] = []
        self.most_idle = most_idle
        self.lock = threading.Lock()

    @contextmanager
    def borrow(self, task: Task, environment: EnvironmentSpecification, size: int) -> Iterator[Worker]:
        """Lend a worker of a task, a new one when none is idle. One that failed its borrower is ended."""
        key = str(task.path), environment.slug
        worker = self.find_idle(key) or Worker(environment, size)
        try:
            yield worker
        except BaseException:
            worker.close()
            raise
        with self.lock:
            self.idle.append((key, worker))
            surplus, self.idle = self.idle[: -self.most_idle], self.idle[-self.most_idle :]
        for _, oldest in surplus:
            oldest.close()

    def find_idle(self, key: tuple[str, str]) -> Worker | None:
        """Take the worker of a task that was idle for the shortest time, if there is any."""
        with self.lock:
            for place in reversed(range(len(self.idle))):
                if self.idle[place][0] == key:
                    return self.idle.pop(place)[1]
        return None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        """End every worker."""
        for _, worker in self.idle:
            worker.close()
