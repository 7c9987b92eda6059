"""What holds a kernel back, from the GPU's own counters, as Nsight Compute reads them."""

from __future__ import annotations

import csv
import subprocess
import sys
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from verifier.environment import EnvironmentSpecification
from verifier.faults import InfrastructureFault
from verifier.task import Task

DURATION = "gpu__time_duration.sum"
WARPS = "sm__warps_active.avg.pct_of_peak_sustained_active"
# How much of its peak each unit reached, in percent.
UNITS = {
    "memory": "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "L2": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "L1 and shared memory": "l1tex__throughput.avg.pct_of_peak_sustained_active",
    "arithmetic": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "instruction issue": "smsp__issue_active.avg.pct_of_peak_sustained_active",
}
# Why warps wait, and in what words.
STALLS = {
    "long_scoreboard": "loads from memory or L2",
    "short_scoreboard": "shared memory and special functions",
    "wait": "results of the instruction before",
    "barrier": "other warps at a barrier",
    "math_pipe_throttle": "a busy arithmetic pipe",
    "mio_throttle": "a full queue to shared memory",
    "lg_throttle": "a full queue to memory",
    "drain": "stores to end",
    "no_instruction": "instructions to be fetched",
    "branch_resolving": "branches",
    "gmma": "tensor cores",
    "sleeping": "sleep",
    "membar": "memory fences",
}
STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
# At this share of its peak a unit is what holds a kernel back; NVIDIA's own guide draws the line there.
BUSY = 60.0
SECONDS = 300.0


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, serialize_by_alias=True)


class KernelLimits(Model):
    """One kernel of a call: its launches together, and the counters of its longest launch."""

    name: str
    launches: int
    milliseconds: float
    share: float = Field(description="of the time of all kernels")
    percent_of_peak: dict[str, float] = Field(description="by unit")
    warps_percent: float = Field(description="warps that were resident, of those that fit")
    stalls: dict[str, float] = Field(description="warps that wait for each reason, for each instruction issued")
    held_back_by: str


class LimitsStudy(Model):
    """What holds the certified solutions back."""

    schema_id: str = Field("kernelquest.study.limits/1", alias="schema")
    task: str
    environment: str
    versions: dict[str, str]
    kernels: list[KernelLimits]


class Launch(NamedTuple):
    """One launch, with its counters by name."""

    kernel: str
    counters: Mapping[str, float]


def list_metrics() -> list[str]:
    """Return the names of all counters."""
    return [DURATION, WARPS, *UNITS.values(), *(STALL.format(reason) for reason in STALLS)]


def read_launches(lines: Iterable[str]) -> list[Launch]:
    """Return the launches in Nsight Compute's raw page as CSV: names, units, and then a row for each launch.

    Lines before the names are what the program and the profiler say. A counter that this GPU lacks is left out.
    """
    table = [line for line in lines if line.startswith('"')]
    launches = []
    for row in list(csv.DictReader(table))[1:]:
        counters = {}
        for name in list_metrics():
            try:
                counters[name] = float(row[name].replace(",", ""))
            except (KeyError, AttributeError, ValueError):
                continue
        launches.append(Launch(row["Kernel Name"], counters))
    return launches


def describe_limit(units: Mapping[str, float], stalls: Mapping[str, float], warps: float) -> str:
    """Return in words what holds a kernel back: a busy unit, or else what its warps wait for."""
    busiest = max(units, key=lambda name: units[name], default="")
    if busiest and units[busiest] >= BUSY:
        return f"{busiest}, at {units[busiest]:.0f} % of its peak"
    if not stalls:
        return "unknown"
    reason = max(stalls, key=lambda name: stalls[name])
    return f"waiting for {STALLS[reason]}; {warps:.0f} % of the warps that fit, and no unit above {BUSY:.0f} %"


def summarise(launches: Iterable[Launch]) -> list[KernelLimits]:
    """Return the kernels of a call, the longest first."""
    by_kernel: dict[str, list[Launch]] = {}
    for launch in launches:
        by_kernel.setdefault(launch.kernel, []).append(launch)
    times = {name: sum(item.counters.get(DURATION, 0.0) for item in items) for name, items in by_kernel.items()}
    total = sum(times.values()) or 1.0
    return [
        describe_kernel(name, by_kernel[name], times[name] / total)
        for name in sorted(times, key=lambda name: -times[name])
    ]


def describe_kernel(name: str, launches: list[Launch], share: float) -> KernelLimits:
    """Return one kernel's limits, from its longest launch."""
    longest = max(launches, key=lambda item: item.counters.get(DURATION, 0.0)).counters
    units = {unit: round(longest[metric], 1) for unit, metric in UNITS.items() if metric in longest}
    metrics = {reason: STALL.format(reason) for reason in STALLS}
    stalls = {reason: round(longest[metric], 3) for reason, metric in metrics.items() if metric in longest}
    warps = longest.get(WARPS, 0.0)
    return KernelLimits(
        name=name,
        launches=len(launches),
        milliseconds=round(sum(item.counters.get(DURATION, 0.0) for item in launches) / 1e6, 6),
        share=round(share, 4),
        percent_of_peak=units,
        warps_percent=round(warps, 1),
        stalls=stalls,
        held_back_by=describe_limit(units, stalls, warps),
    )


def study_limits(task: Task, environment: EnvironmentSpecification, versions: dict[str, str]) -> LimitsStudy:
    """Run the certified solution under Nsight Compute. Raises InfrastructureFault where there is none, or it fails."""
    command = [
        "ncu", "--csv", "--page", "raw", "--print-units", "base", "--profile-from-start", "off",
        "--clock-control", "none", "--metrics", ",".join(list_metrics()),
        sys.executable, "-m", "verifier.replay", str(task.path),
    ]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except FileNotFoundError as error:
        raise InfrastructureFault("Nsight Compute (ncu) is not on the PATH: install it with CUDA's tools") from error
    except subprocess.TimeoutExpired as error:
        raise InfrastructureFault(f"{task.id} took more than {SECONDS:.0f} s under Nsight Compute") from error
    kernels = summarise(read_launches(done.stdout.splitlines()))
    if not kernels:
        raise InfrastructureFault(f"Nsight Compute saw nothing: {(done.stderr or done.stdout)[-300:].strip()}")
    return LimitsStudy(task=task.id, environment=environment.slug, versions=versions, kernels=kernels)
