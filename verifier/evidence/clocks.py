"""The GPU seen from outside, through NVML: who uses it, how fast it runs, and whether it is being slowed down."""

from __future__ import annotations

import fcntl
import os
import tempfile
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from verifier.faults import InfrastructureFault
from verifier.sandbox import VisibleGpu, list_descendants
from verifier.verdict import FailureCode

SAMPLE_SECONDS = 0.1
LEASE_SECONDS = 3_600.0
LEASE_POLL_SECONDS = 0.5
# Of NVML's reasons for a lower clock: those that are no choice of the power management's.
SLOWED_BY = {0x08: "hardware slowdown", 0x20: "software thermal", 0x40: "hardware thermal", 0x80: "power brake"}


def load_nvml() -> Any:
    """Return NVML, initialised. Raises InfrastructureFault."""
    try:
        import pynvml  # noqa: PLC0415 - only hosts with a GPU have it

        pynvml.nvmlInit()
    except ImportError as error:
        raise InfrastructureFault("the package nvidia-ml-py is missing: install the extra 'verifier'") from error
    except Exception as error:
        raise InfrastructureFault(f"NVML does not answer: {error}") from error
    return pynvml


@dataclass
class Readings:
    """What was seen of the GPU over some time: clocks in MHz, temperature in degrees Celsius, power in watts."""

    sm_clocks: list[int] = field(default_factory=list)
    memory_clocks: list[int] = field(default_factory=list)
    temperatures: list[int] = field(default_factory=list)
    watts: list[float] = field(default_factory=list)
    slowed: set[str] = field(default_factory=set)
    foreign: set[int] = field(default_factory=set)

    @property
    def disturbed(self) -> str:
        """Why a measurement made meanwhile does not count, or an empty text."""
        if self.slowed:
            return f"the GPU was slowed down: {', '.join(sorted(self.slowed))}"
        return f"{len(self.foreign)} other processes used the GPU" if self.foreign else ""

    def add(self, other: Readings) -> None:
        """Join other readings to these."""
        for name in ("sm_clocks", "memory_clocks", "temperatures", "watts"):
            getattr(self, name).extend(getattr(other, name))
        self.slowed |= other.slowed
        self.foreign |= other.foreign


class Gpu:
    """The GPU that CUDA_VISIBLE_DEVICES names first, by UUID or by its number in the order of the PCI bus."""

    def __init__(self) -> None:
        """Find it. Raises InfrastructureFault."""
        self.nvml = load_nvml()
        try:
            self.handle = self.find_handle()
            self.uuid = str(self.nvml.nvmlDeviceGetUUID(self.handle))
            self.visible = VisibleGpu(self.uuid, int(self.nvml.nvmlDeviceGetMinorNumber(self.handle)))
            self.name = str(self.nvml.nvmlDeviceGetName(self.handle))
            self.driver = str(self.nvml.nvmlSystemGetDriverVersion())
            self.total_memory = int(self.nvml.nvmlDeviceGetMemoryInfo(self.handle).total)
        except Exception as error:
            raise InfrastructureFault(f"NVML does not answer: {error}") from error

    def find_handle(self) -> Any:
        """Return the device that CUDA_VISIBLE_DEVICES names first, by number or UUID."""
        first = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0].strip() or "0"
        if first.isdigit():
            return self.nvml.nvmlDeviceGetHandleByIndex(int(first))
        return self.nvml.nvmlDeviceGetHandleByUUID(first)

    def list_processes(self) -> set[int]:
        """Return the processes that compute on it, as far as this host can see them."""
        return {item.pid for item in self.nvml.nvmlDeviceGetComputeRunningProcesses(self.handle)}

    def check_idle(self) -> None:
        """Raise InfrastructureFault when somebody else computes on it."""
        strangers = self.list_processes() - {os.getpid(), *list_descendants(os.getpid())}
        if strangers:
            raise InfrastructureFault(
                f"other processes use the GPU: {', '.join(map(str, sorted(strangers)))}",
                FailureCode.INFRA_UNSTABLE_TIMING,
            )

    def read(self, readings: Readings, known: Collection[int]) -> None:
        """Add one sample."""
        nvml = self.nvml
        readings.sm_clocks.append(nvml.nvmlDeviceGetClockInfo(self.handle, nvml.NVML_CLOCK_SM))
        readings.memory_clocks.append(nvml.nvmlDeviceGetClockInfo(self.handle, nvml.NVML_CLOCK_MEM))
        readings.temperatures.append(nvml.nvmlDeviceGetTemperature(self.handle, nvml.NVML_TEMPERATURE_GPU))
        readings.watts.append(nvml.nvmlDeviceGetPowerUsage(self.handle) / 1e3)
        reasons = nvml.nvmlDeviceGetCurrentClocksThrottleReasons(self.handle)
        readings.slowed |= {text for bit, text in SLOWED_BY.items() if reasons & bit}
        readings.foreign |= self.list_processes() - set(known)


class Watch:
    """Reads the GPU ten times a second while a block runs. Who uses it when the block begins is no stranger."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu, self.readings = gpu, Readings()
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.failure = ""

    def run(self) -> None:
        """Read until the block ends; what NVML raises is reported there."""
        try:
            known = {*self.gpu.list_processes(), os.getpid(), *list_descendants(os.getpid())}
            while not self.ended.wait(SAMPLE_SECONDS):
                self.gpu.read(self.readings, known)
        except Exception as error:  # noqa: BLE001 - a thread has nobody to raise to
            self.failure = str(error)

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *details: object) -> None:
        self.ended.set()
        self.thread.join()
        if self.failure and details[0] is None:
            raise InfrastructureFault(f"NVML does not answer: {self.failure}")


def find_lock(uuid: str) -> Path:
    """Return the file whose lock is the right to use a GPU."""
    return Path(tempfile.gettempdir()) / f"kernelquest-{uuid}.lock"


def is_leased(uuid: str) -> bool:
    """Return whether a verification has a GPU at this moment."""
    try:
        with find_lock(uuid).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


class Lease:
    """The exclusive right to use a GPU, among all verifications of this host."""

    def __init__(self, uuid: str, waiting: Callable[[], None]) -> None:
        """Name the GPU; `waiting` is called once when somebody else has it."""
        self.path = find_lock(uuid)
        self.waiting = waiting
        self.descriptor = -1

    def __enter__(self) -> Self:
        """Wait for it. Raises InfrastructureFault after an hour."""
        self.descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        deadline, told = time.monotonic() + LEASE_SECONDS, False
        while True:
            try:
                fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if not told:
                    self.waiting()
                    told = True
                if time.monotonic() > deadline:
                    raise InfrastructureFault(f"the GPU stayed taken for an hour ({self.path})") from None
                time.sleep(LEASE_POLL_SECONDS)
            else:
                return self

    def __exit__(self, *details: object) -> None:
        os.close(self.descriptor)
