"""Physical floors: the time below which a result cannot be real. Pure functions on plain numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from verifier.environment import Device
from verifier.task import TaskSpecification, evaluate_expression

MARGIN = 0.97


@dataclass(frozen=True)
class FloorTime:
    """The least time of a task on a device, in milliseconds, and what binds it."""

    milliseconds: float
    bound: Literal["bytes", "operations"]

    @property
    def rejects_below(self) -> float:
        """A measured time below this, in milliseconds, is rejected: 3 % are left for clock granularity."""
        return self.milliseconds * MARGIN


def compute_floor(task: TaskSpecification, device: Device, dims: Mapping[str, int]) -> FloorTime | None:
    """Return the floor of `task` on `device`, or None when the task has none.

    Cold: every compulsory byte is read once, and writes beyond the L2 reach memory. Warm: what exceeds
    the L2 moves. The larger of that and the operations at the pipe's peak rate is the floor.
    """
    floor = task.floor
    if floor.bytes_read is None or floor.bytes_written is None or floor.operations is None:
        return None
    read, written = evaluate_expression(floor.bytes_read, dims), evaluate_expression(floor.bytes_written, dims)
    moved = (
        read + max(0, written - device.l2_bytes)
        if task.timing_mode == "cold"
        else max(0, read + written - device.l2_bytes)
    )
    by_bytes = moved / (device.memory_gigabytes_per_second * 1e9) * 1e3
    teraflops = device.fp16_teraflops if floor.pipe == "fp16" else device.fp32_teraflops
    by_operations = evaluate_expression(floor.operations, dims) / (teraflops * 1e12) * 1e3
    if by_bytes >= by_operations:
        return FloorTime(by_bytes, "bytes")
    return FloorTime(by_operations, "operations")
