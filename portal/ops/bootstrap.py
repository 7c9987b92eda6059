"""Make `.venv` from a lock, so that `make demo` and `make test` work from a fresh clone.

Run as `python3 -I portal/ops/bootstrap.py web|demo|dev|h200`. Standard library only. It must also parse on old Pythons, so
that they get a message and not a traceback.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import shutil
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
OLDEST, NEWEST = (3, 11), (3, 12)
PROBE = "import importlib.util as u, sys; print(*sys.version_info[:2], int(u.find_spec('ensurepip') is not None))"

# Each lock and those that it holds all of. A host of one environment has that environment's PyTorch and Triton.
LOCKS = {"web": ("web",), "demo": ("web", "demo"), "dev": ("web", "demo", "dev"), "h200": ("web", "h200")}
GIGABYTE = 10**9

LAUNCHER = """\
#!{python}
import sys

from verifier.cli import main

sys.exit(main())
"""


class SetupError(Exception):
    """The environment cannot be made here; the message says why and what to do."""


class Interpreter(NamedTuple):
    """A Python that was run and answered."""

    path: str
    version: tuple[int, int]
    has_ensurepip: bool

    @property
    def is_supported(self) -> bool:
        """True when the pinned packages have builds for this version."""
        return OLDEST <= self.version <= NEWEST


class Size(NamedTuple):
    """What one lock costs, in gigabytes."""

    download: float
    installed: float


SIZES = {"web": Size(0.1, 0.5), "demo": Size(3.1, 6.0), "dev": Size(3.2, 6.4), "h200": Size(2.6, 6.5)}


def probe_interpreter(command: str) -> Interpreter | None:
    """Return what `command` is, or None when it does not run."""
    try:
        answer = subprocess.run([command, "-I", "-c", PROBE], capture_output=True, text=True, check=True, timeout=60)
        major, minor, has_ensurepip = map(int, answer.stdout.split())
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return Interpreter(command, (major, minor), bool(has_ensurepip))


def list_candidates() -> Iterator[str]:
    """Yield the Pythons to try: this one first, then those on PATH."""
    # The real program: a link of an environment that is made afresh would vanish.
    yield str(Path(sys.executable).resolve())
    for name in ("python3.12", "python3.11"):
        path = shutil.which(name)
        if path:
            yield path


def choose_interpreter(candidates: Iterable[str]) -> Interpreter | None:
    """Return the first candidate that runs and is supported."""
    for command in candidates:
        interpreter = probe_interpreter(command)
        if interpreter and interpreter.is_supported:
            return interpreter
    return None


def find_uv() -> str | None:
    """Return the path of a uv that runs, or None."""
    path = shutil.which("uv")
    if path is None or subprocess.run([path, "--version"], capture_output=True, check=False).returncode:
        return None
    return path


def compute_digest(path: Path) -> str:
    """Return the SHA-256 of the file at `path`."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


class Environment:
    """The virtual environment of one checkout."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.path = root / ".venv"
        self.python = self.path / "bin" / "python"
        self.stamp = self.path / "kernelquest.json"
        # Lies there for as long as an installation is under way. Not inside .venv, which is deleted meanwhile.
        self.unfinished = root / "var" / "setup-unfinished"

    def describe(self, lock: str, version: tuple[int, int]) -> dict[str, object]:
        """Return what the stamp of an environment with `lock` says."""
        digests = {name: compute_digest(self.root / "requirements" / f"{name}.txt") for name in LOCKS[lock]}
        return {"root": str(self.root), "python": list(version), "locks": digests}

    def is_current(self, lock: str) -> bool:
        """Return whether everything of `lock` is installed."""
        interpreter = probe_interpreter(str(self.python))
        if interpreter is None or self.unfinished.exists():
            return False
        try:
            found = json.loads(self.stamp.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return False
        wanted = self.describe(lock, interpreter.version)
        held = {name: found["locks"].get(name) for name in wanted["locks"]}  # type: ignore[attr-defined]
        return {**found, "locks": held} == wanted

    def is_usable(self) -> bool:
        """Return whether packages can be installed into what is there."""
        interpreter = probe_interpreter(str(self.python))
        return interpreter is not None and interpreter.is_supported and not self.unfinished.exists()

    def install(self, lock: str, uv: str | None) -> None:
        """Make the environment when needed and install `lock`. Raises SetupError."""
        fresh = not self.is_usable()
        interpreter = choose_interpreter(list_candidates()) if fresh else probe_interpreter(str(self.python))
        create = plan_creation(interpreter, uv, self.path) if fresh else []
        check_disk(lock, self.root, uv)
        announce(lock)
        self.unfinished.parent.mkdir(exist_ok=True)
        self.unfinished.touch()
        if fresh:
            shutil.rmtree(self.path, ignore_errors=True)
            execute(create)
        self.stamp.unlink(missing_ok=True)
        execute(plan_installation(self.root / "requirements" / f"{lock}.txt", uv, self.python))
        self.finish(lock)

    def finish(self, lock: str) -> None:
        """Make `verifier`, `portal` and the kq command reachable, then set the stamp."""
        interpreter = probe_interpreter(str(self.python))
        if interpreter is None:
            raise SetupError(f"{self.python} does not run after its installation. Delete .venv and try again.")
        packages = self.path / "lib" / "python{}.{}".format(*interpreter.version) / "site-packages"
        (packages / "kernelquest.pth").write_text(f"{self.root}\n", encoding="utf-8")
        command = self.path / "bin" / "kq"
        command.write_text(LAUNCHER.format(python=self.python), encoding="utf-8")
        command.chmod(0o755)
        self.stamp.write_text(json.dumps(self.describe(lock, interpreter.version), indent=2), encoding="utf-8")
        self.unfinished.unlink()


def plan_creation(interpreter: Interpreter | None, uv: str | None, path: Path) -> list[str]:
    """Return the command that makes an empty environment at `path`. Raises SetupError."""
    if uv:
        return [uv, "venv", "--quiet", "--python", interpreter.path if interpreter else "3.12", str(path)]
    if interpreter is None:
        raise SetupError(
            "No Python 3.11 or 3.12 found (this is {}.{}): the pinned Triton 3.1.0 has no build for another version.\n"
            "Install python3.11 or python3.12 so that it is on PATH, or install uv, which can supply one.".format(
                *sys.version_info
            )
        )
    if not interpreter.has_ensurepip:
        raise SetupError(
            "{} cannot make a virtual environment: its ensurepip is missing.\n"
            "On Debian or Ubuntu: apt-get install python{}.{}-venv. Or install uv.".format(
                interpreter.path, *interpreter.version
            )
        )
    return [interpreter.path, "-m", "venv", str(path)]


def plan_installation(lock: Path, uv: str | None, python: Path) -> list[str]:
    """Return the command that installs `lock`, hash-checked, without building anything."""
    options = ["--require-hashes", "--only-binary", ":all:", "-r", str(lock)]
    if uv:
        # As pip does: the sandbox reads the environment and cannot write what it compiled there.
        return [uv, "pip", "install", "--compile-bytecode", "--python", str(python), *options]
    return [str(python), "-m", "pip", "install", "--disable-pip-version-check", *options]


def check_disk(lock: str, root: Path, uv: str | None) -> None:
    """Raise SetupError when a disk that the installation writes to has too little free space."""
    size = SIZES[lock]
    needs = [(root, size.installed)]
    if uv is None:
        # pip keeps all downloads in the temporary folder until the last one is there.
        needs.append((Path(tempfile.gettempdir()), size.download))
    for place, _ in needs:
        wanted = sum(amount for other, amount in needs if other.stat().st_dev == place.stat().st_dev)
        free = shutil.disk_usage(place).free / GIGABYTE
        if free < wanted:
            raise SetupError(
                f"Too little disk: the set-up needs about {wanted:.1f} GB at {place}, and {free:.1f} GB are free.\n"
                "Free some space, or clone to a larger disk (pip also follows TMPDIR)."
            )


def check_platform(system: str, machine: str) -> None:
    """Raise SetupError when the locks have nothing for this platform."""
    if (system, machine) != ("Linux", "x86_64"):
        raise SetupError(
            f"KernelQuest runs on Linux on x86_64; this is {system} on {machine}.\n"
            "The pinned Triton 3.1.0 has no build for another platform. Use a Linux machine or container."
        )


def announce(lock: str) -> None:
    """Say what comes before anything is downloaded."""
    size = SIZES[lock]
    what = "" if lock == "web" else ", most of it PyTorch's CUDA libraries"
    print(
        f"Setting up .venv from requirements/{lock}.txt: up to {size.download} GB to download, "
        f"{size.installed} GB on disk{what}. This happens once.",
        flush=True,
    )


def make_variables(inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables for the tools of the set-up."""
    # Another active environment must not receive our packages.
    variables = {key: value for key, value in inherited.items() if key not in ("VIRTUAL_ENV", "PYTHONPATH")}
    paths = ssl.get_default_verify_paths()
    if paths.cafile or paths.capath:
        # Behind a proxy with its own certificate only the system's store knows it; uv brings a store of its own.
        variables.setdefault("UV_SYSTEM_CERTS", "true")
    return variables


def execute(command: list[str]) -> None:
    """Run one command of the set-up. Raises SetupError when it fails."""
    if subprocess.run(command, env=make_variables(os.environ), check=False).returncode:
        raise SetupError(
            f"The set-up failed at: {' '.join(command)}\n"
            "Its message is above. When it was the network, run the same command again: the set-up starts afresh."
        )


def prepare(lock: str, root: Path = ROOT) -> None:
    """Make `.venv` hold everything of `lock`. Raises SetupError."""
    check_platform(platform.system(), platform.machine())
    environment = Environment(root)
    if environment.is_current(lock):
        return
    # Two set-ups of one checkout must not write at the same time.
    with (root / "pyproject.toml").open(encoding="utf-8") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        if not environment.is_current(lock):
            environment.install(lock, find_uv())


def main(arguments: list[str]) -> int:
    """Prepare the lock that the command line names; return the exit code."""
    if len(arguments) != 1 or arguments[0] not in LOCKS:
        print(f"usage: bootstrap.py {'|'.join(LOCKS)}", file=sys.stderr)
        return 2
    try:
        prepare(arguments[0])
    except SetupError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nStopped. The same command starts the set-up afresh.", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
