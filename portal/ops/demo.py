"""The demo: the web server and one worker, side by side on this machine for as long as the command runs."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

from portal.ops.processes import follow_parent

HOST = "127.0.0.1"
READY_SECONDS = 60
STOP_SECONDS = 20
# A service that ends sooner after its start would only end again.
SHORTEST_LIFE_SECONDS = 10


class DemoError(Exception):
    """The demo cannot run here; the message says why and what to do."""


class Service:
    """One child process of the demo, with its output in a file."""

    def __init__(self, name: str, command: list[str], log: Path) -> None:
        self.name, self.command, self.log = name, command, log
        self.process: subprocess.Popen[bytes] | None = None
        self.started = 0.0

    def start(self) -> None:
        """Start the process in a session of its own, so that Ctrl-C reaches the demo alone."""
        parent = os.getpid()
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=lambda: follow_parent(parent),  # noqa: PLW1509  the demo has one thread
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
        """Start an ended process again. Raises DemoError when it did not live long."""
        if time.monotonic() - self.started < SHORTEST_LIFE_SECONDS:
            raise DemoError(f"The {self.name} ended soon after its start. The end of {self.log}:\n{self.read_tail()}")
        self.start()

    def read_tail(self, size: int = 2000) -> str:
        """Return the last `size` bytes of the output."""
        return self.log.read_bytes()[-size:].decode("utf-8", "replace")


def check_port(port: int) -> None:
    """Raise DemoError when `port` cannot be listened on."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise DemoError(
                f"Port {port} cannot be used: {error.strerror}. Choose another one: make demo DEMO_PORT={port + 1}"
            ) from error


def check_writable(folder: Path) -> None:
    """Raise DemoError when the database cannot be written in `folder`."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f"probe-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise DemoError(
            f"{folder} cannot be written: {error.strerror}. Make it writable, or name another folder: "
            "make demo PORTAL_VAR=FOLDER"
        ) from error


def build_services(port: int, environment: str, logs: Path) -> list[Service]:
    """Return the web server and the worker of one `environment`, not started yet."""
    web = [
        *(sys.executable, "-m", "gunicorn", "portal.wsgi:application", "--bind", f"{HOST}:{port}"),
        *("--worker-class", "gthread", "--workers", "2", "--threads", "4", "--no-control-socket"),
    ]
    worker = [sys.executable, "manage.py", "worker", "--environment", environment]
    return [Service("web server", web, logs / "web.log"), Service("worker", worker, logs / "worker.log")]


def answers(url: str) -> bool:
    """Return whether `url` answers with success."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310  our own http address
            return bool(answer.status == 200)  # noqa: PLR2004
    except (urllib.error.URLError, OSError):
        return False


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


def wait_until_ready(services: list[Service], is_ready: Callable[[], bool], stop: threading.Event) -> None:
    """Return when `is_ready()`, or when `stop` is set. Raises DemoError."""
    deadline = time.monotonic() + READY_SECONDS
    while not is_ready() and not stop.wait(0.2):
        revive_ended(services)
        if time.monotonic() > deadline:
            tails = "\n".join(f"{service.log}:\n{service.read_tail()}" for service in services)
            raise DemoError(f"The demo was not ready within {READY_SECONDS} seconds.\n{tails}")


def revive_ended(services: list[Service]) -> None:
    """Start again what has ended. Raises DemoError when it ended at once."""
    for service in services:
        if service.has_ended():
            service.revive()


def keep_running(services: list[Service], stop: threading.Event) -> None:
    """Watch over `services` until `stop` is set. Raises DemoError when one cannot be kept alive."""
    while not stop.wait(0.5):
        revive_ended(services)
