"""Child processes that do not outlive their parent."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

PR_SET_PDEATHSIG = 1
STOP_SECONDS = 20
# A service that ends sooner after its start would only end again.
SHORTEST_LIFE_SECONDS = 10

_libc = ctypes.CDLL(None)


def follow_parent(parent: int, number: int = signal.SIGTERM) -> None:
    """Send this process the signal `number` when the process `parent` dies. Call it first in a child."""
    _libc.prctl(PR_SET_PDEATHSIG, int(number))
    # The parent may have died before the kernel knew of the wish.
    if os.getppid() != parent:
        os.kill(os.getpid(), number)


class ServiceError(Exception):
    """A service cannot be kept alive; the message holds the end of its output."""


class Service:
    """One child process that keeps running, with its output in a file."""

    def __init__(self, name: str, command: list[str], log: Path) -> None:
        self.name, self.command, self.log = name, command, log
        self.process: subprocess.Popen[bytes] | None = None
        self.started = 0.0

    def start(self) -> None:
        """Start the process in a session of its own, so that Ctrl-C reaches only its parent."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        # The first start empties the file.
        with self.log.open("ab" if self.process else "wb") as output:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=partial(follow_parent, os.getpid()),  # noqa: PLW1509  no other thread runs
            )
        self.started = time.monotonic()

    def has_ended(self) -> bool:
        """Return whether the process has ended or was never started."""
        return self.process is None or self.process.poll() is not None

    def terminate(self) -> None:
        """Ask the process to end."""
        if self.process is not None:
            self.process.terminate()

    def stop(self) -> None:
        """Wait for the end of a terminated process, then end what is left of its group."""
        if self.process is None:
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(STOP_SECONDS)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def revive(self) -> None:
        """Start an ended process again. Raises ServiceError when it did not live long."""
        if time.monotonic() - self.started < SHORTEST_LIFE_SECONDS:
            raise ServiceError(
                f"The {self.name} ended soon after its start. The end of {self.log}:\n{self.read_tail()}"
            )
        self.start()

    def read_tail(self, size: int = 2000) -> str:
        """Return the last `size` bytes of the output."""
        return self.log.read_bytes()[-size:].decode("utf-8", "replace")


@contextlib.contextmanager
def running(services: list[Service]) -> Iterator[threading.Event]:
    """Start `services`, hand over an event that a signal to stop sets, and stop them whatever happens."""
    stop = threading.Event()
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    previous = {number: signal.signal(number, lambda *_: stop.set()) for number in numbers}
    try:
        for service in services:
            service.start()
        yield stop
    finally:
        for service in services:
            service.terminate()
        for service in services:
            service.stop()
        for number, handler in previous.items():
            signal.signal(number, handler)


def revive_ended(services: list[Service]) -> None:
    """Start again what has ended. Raises ServiceError when it ended at once."""
    for service in services:
        if service.has_ended():
            service.revive()


def keep_running(services: list[Service], stop: threading.Event) -> None:
    """Watch over `services` until `stop` is set. Raises ServiceError when one cannot be kept alive."""
    while not stop.wait(0.5):
        revive_ended(services)
