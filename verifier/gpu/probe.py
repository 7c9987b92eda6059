"""Run inside the GPU's box by `kq doctor`: says as JSON whether everything that a verification needs works there."""

from __future__ import annotations

import ctypes
import json
import os

import torch

from verifier.gpu import driver
from verifier.gpu.profile import Profiler
from verifier.gpu.stopwatch import Stopwatch

_PAGEABLE_MEMORY_ACCESS = 88


def read_device_attribute(attribute: int) -> int:
    """Return an attribute of device 0."""
    value = ctypes.c_int()
    driver.check(driver.library().cuDeviceGetAttribute(ctypes.byref(value), attribute, 0))
    return value.value


def probe() -> dict[str, object]:
    """Time one copy behind a hold, profile another, and look at what a kernel could reach."""
    stopwatch = Stopwatch(1 << 20)
    torch.cuda.set_stream(stopwatch.stream)
    data = torch.zeros(1 << 24, device="cuda")
    copy = data.clone()
    stopwatch.arm(cold=True, longest_hold=1.0)
    copy.copy_(data)
    reading = stopwatch.stop()
    profiler = Profiler()
    profiler.start()
    copy.copy_(data)
    return {
        "user": os.getuid(),
        "name": torch.cuda.get_device_name(),
        "milliseconds": reading.milliseconds,
        "held": not reading.released_early,
        "activities": len(profiler.stop()),
        "host_memory_reachable": bool(read_device_attribute(_PAGEABLE_MEMORY_ACCESS)),
    }


if __name__ == "__main__":
    print(json.dumps(probe()))  # noqa: T201 - its output is what it is for
