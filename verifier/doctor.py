"""Says whether this host can verify in an environment, and what to do where it cannot."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import platform
import shutil
import sys
import sysconfig
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from verifier import sandbox
from verifier.environment import EnvironmentSpecification
from verifier.evidence.clocks import Gpu, Readings, is_leased
from verifier.faults import InfrastructureFault
from verifier.task import TaskError, find_tasks_root, load_tasks
from verifier.worker import find_cache_folder

MINIMUM_FREE_BYTES = 2 << 30
PROBE_SECONDS = 90.0
HOTTEST_IDLE = 70


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at. `fix` says what to do, and is empty when all is well."""

    name: str
    found: str
    fix: str = ""

    @property
    def ok(self) -> bool:
        return not self.fix

    def to_dict(self) -> dict[str, object]:
        return {**asdict(self), "ok": self.ok}


def check_python() -> Finding:
    supported = (3, 11) <= sys.version_info[:2] <= (3, 12)
    fix = "" if supported else "use Python 3.11 or 3.12: the pinned Triton 3.1.0 has builds for no other"
    return Finding("python", platform.python_version(), fix)


def check_versions(environment: EnvironmentSpecification) -> Finding:
    """Compare torch and Triton with the environment's pins."""
    pins = environment.versions
    try:
        found = {name: importlib.metadata.version(name) for name in ("torch", "triton")}
    except importlib.metadata.PackageNotFoundError as error:
        return Finding("packages", "missing", f"install {error.name}: this project's extra 'verifier' holds it")
    pinned = found["torch"].split("+")[0] == pins.torch and found["triton"] == pins.triton
    fix = "" if pinned else f"environment {environment.slug} needs torch {pins.torch} and triton {pins.triton}"
    return Finding("packages", f"torch {found['torch']}, triton {found['triton']}", fix)


def check_sandbox() -> Finding:
    try:
        return Finding("sandbox", f"{sandbox.find_bubblewrap()} ({sandbox.probe()})")
    except sandbox.SandboxUnavailable as error:
        return Finding("sandbox", "unavailable", str(error))


def check_space() -> Finding:
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    fix = "" if free >= MINIMUM_FREE_BYTES else "free at least 2 GiB, or set TMPDIR to a larger disk"
    return Finding("disk", f"{free / 2**30:.1f} GiB free in {folder}", fix)


def check_tasks() -> Finding:
    try:
        tasks = load_tasks()
    except TaskError as error:
        return Finding("tasks", "malformed", str(error))
    return Finding("tasks", f"{len(tasks)} tasks", "" if tasks else f"no tasks in {find_tasks_root()}; set KQ_TASKS")


def check_cache() -> Finding:
    """Compiled baselines must be kept where this user, and no submission, can write."""
    folder = find_cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return Finding("baseline cache", str(folder))
    except OSError as error:
        return Finding("baseline cache", str(folder), f"cannot be written ({error.strerror}); set KQ_CACHE to another")


def check_bytecode(site: Path | None = None) -> Finding:
    """Look whether PyTorch's modules in `site` are compiled: boxes see them read-only, and each would compile them anew."""
    folder = site or Path(sysconfig.get_path("purelib"))
    if Path(importlib.util.cache_from_source(str(folder / "torch" / "__init__.py"))).is_file():
        return Finding("bytecode", "PyTorch's modules are compiled")
    # A verification is as sound without: nothing has to be done.
    advice = f"python -m compileall -q -j 0 {folder}"
    return Finding("bytecode", f"PyTorch's modules are not compiled, so a verification starts seconds later ({advice})")


def check_gpu(environment: EnvironmentSpecification) -> Finding:
    """Look at the GPU through NVML: the right one, cool, not slowed down, and nobody else's."""
    try:
        gpu, readings = Gpu(), Readings()
        busy = is_leased(gpu.uuid)
        gpu.read(readings, known=gpu.list_processes() if busy else ())
    except InfrastructureFault as fault:
        return Finding("gpu", "not found", f"{fault}; load NVIDIA's driver, or pass the GPU to this machine")
    found = f"{gpu.name}, driver {gpu.driver}, {readings.temperatures[0]} °C, SM clock {readings.sm_clocks[0]} MHz"
    found += ", a verification has it now" if busy else ""
    return Finding("gpu", found, find_gpu_fix(gpu, readings, environment))


def find_gpu_fix(gpu: Gpu, readings: Readings, environment: EnvironmentSpecification) -> str:
    if environment.device.name not in gpu.name:
        return f"environment {environment.slug} needs an {environment.device.name}"
    if readings.foreign:
        return f"stop what else uses it: processes {', '.join(map(str, sorted(readings.foreign)))}"
    if readings.slowed:
        return f"it is slowed down ({', '.join(sorted(readings.slowed))}): see to power and cooling"
    return "" if readings.temperatures[0] < HOTTEST_IDLE else "it is hot without work: see to its cooling"


def check_gpu_box() -> Finding:
    """Use the GPU inside the box that submissions' work runs in."""
    package = Path(__file__).resolve().parent
    parts = ("__init__.py", "candidate", "device", "gpu")
    shown = {f"{sandbox.RUNNER_FOLDER}/verifier/{name}": package / name for name in parts}
    try:
        limits = sandbox.Limits(memory=16 << 30, processes=256, gpu=Gpu().visible)
        process = sandbox.start([*sandbox.python_command(), "-m", "verifier.gpu.probe"], shown=shown, limits=limits)
    except (sandbox.SandboxUnavailable, InfrastructureFault) as error:
        return Finding("gpu in the box", "unavailable", str(error))
    status = process.finish(PROBE_SECONDS)
    last = process.output().strip().rpartition("\n")[2]
    if status != 0 or not last.startswith("{"):
        return Finding("gpu in the box", "does not work", process.output()[-600:].strip() or f"exit status {status}")
    return describe_probe(json.loads(last))


def describe_probe(seen: dict[str, Any]) -> Finding:
    """Return what the probe's findings mean."""
    found = f"{seen['name']}, a held copy took {seen['milliseconds']:.3f} ms, {seen['activities']} profiled activities"
    if not seen["held"]:
        fix = "streams cannot be held back here (stream memory operations): update NVIDIA's driver"
    elif not seen["activities"]:
        fix = "the profiler sees nothing: allow it (NVreg_RestrictProfilingToAdminUsers=0) and mount /sys"
    elif seen["host_memory_reachable"]:
        fix = "kernels can reach all of a process's host memory: load the module nvidia_uvm with uvm_disable_hmm=1"
    else:
        fix = ""
    return Finding("gpu in the box", found, fix)


def examine(environment: EnvironmentSpecification) -> list[Finding]:
    """Return what was found, in order."""
    findings = [check_python(), check_versions(environment), check_sandbox(), check_space(), check_tasks()]
    if not environment.timed:
        return findings
    return [*findings, check_cache(), check_bytecode(), check_gpu(environment), check_gpu_box()]
