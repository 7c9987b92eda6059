"""Starts the reference worker: the task's own PyTorch code in a process of its own. Needs no PyTorch itself."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Self

from verifier.candidate.channel import Channel
from verifier.environment import EnvironmentSpecification


def find_cache_folder() -> Path:
    """Return where compiled baselines are kept: `KQ_CACHE` when set, else the user's cache folder."""
    configured = os.environ.get("KQ_CACHE")
    return Path(configured) if configured else Path.home() / ".cache" / "kernelquest"


class Worker:
    """The process and the judge's line to it. Close it, or use it as a context manager."""

    def __init__(self, environment: EnvironmentSpecification, slab: int) -> None:
        """Start it; `slab` is the descriptor of the memory shared with it."""
        end, worker_end = socket.socketpair()
        settings = {
            "line": worker_end.fileno(),
            "slab": slab,
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
            pass_fds=[worker_end.fileno(), slab],
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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()
