"""The demo: the web server, one worker and the delivery of messages, side by side on this machine for as long as the command runs.

Run as `python -m portal.ops.demo`. What can be wrong with the machine is found before Django's settings are read.
"""

from __future__ import annotations

import fcntl
import io
import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Any

from portal.ops.processes import Service, ServiceError, follow_parent, keep_running, revive_ended, running

ROOT = Path(__file__).resolve().parents[2]
HOST = "127.0.0.1"
DEFAULT_PORT = 8000
ENVIRONMENT = "cpu-interpreter"
READY_SECONDS = 60


class DemoError(Exception):
    """The demo cannot run here; the message says why and what to do."""


def read_port(variables: Mapping[str, str]) -> int:
    """Return the port that DEMO_PORT names. Raises DemoError."""
    text = variables.get("DEMO_PORT", str(DEFAULT_PORT))
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 2**16:
        raise DemoError(f"DEMO_PORT={text} is no port. Give a number from 1 to 65535: make demo DEMO_PORT=8001")
    return int(text)


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


def check_alone(folder: Path) -> None:
    """Raise DemoError when a worker runs in `folder` already: a second demo would change the first one's password."""
    path = folder / "locks" / f"{ENVIRONMENT}.lock"
    if not path.is_file():
        return
    with path.open(encoding="ascii") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DemoError(
                f"A demo runs in {folder} already, with worker {file.read()}. Use that one, or end it first;"
                " for two at once set PORTAL_VAR to another folder."
            ) from None


def check_sandbox() -> None:
    """Raise DemoError when the verifier finds that it cannot run submissions here."""
    command = [sys.executable, "-m", "verifier", "doctor"]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if answer.returncode:
        raise DemoError(f"Submissions cannot be verified on this machine.\n{answer.stdout}{answer.stderr}".rstrip())


def prepare_data() -> dict[str, str]:
    """Bring the database, the static files, the tasks and the demo's data up to date; return the sign-in.

    Raises DemoError.
    """
    from django.core.management import CommandError, call_command
    from django.db import DatabaseError

    def call(name: str, **options: Any) -> str:
        output = io.StringIO()
        call_command(name, stdout=output, **options)
        return output.getvalue()

    try:
        call("migrate", verbosity=0, interactive=False)
        call("collectstatic", verbosity=0, interactive=False)
        call("load_tasks", verbosity=0)
        return dict(json.loads(call("create_demo_data")))
    except CommandError as error:
        raise DemoError(str(error)) from error
    except DatabaseError as error:
        raise DemoError(
            f"The database cannot be used: {str(error).strip()}\n"
            "Make it writable, or name another one: DATABASE_URL=... make demo"
        ) from error


def build_services(port: int, logs: Path) -> list[Service]:
    """Return the web server, the worker, and what sends mail and calls webhooks, not started yet."""
    web = [
        *(sys.executable, "-m", "gunicorn", "portal.wsgi:application", "--bind", f"{HOST}:{port}"),
        *("--worker-class", "gthread", "--workers", "2", "--threads", "4", "--no-control-socket"),
    ]
    worker = [sys.executable, str(ROOT / "manage.py"), "worker", "--environment", ENVIRONMENT]
    deliver = [sys.executable, str(ROOT / "manage.py"), "deliver"]
    return [
        Service("web server", web, logs / "web.log"),
        Service("worker", worker, logs / "worker.log"),
        Service("delivery", deliver, logs / "deliver.log"),
    ]


def answers(url: str) -> bool:
    """Return whether `url` answers with success."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310  our own http address
            return bool(answer.status == 200)  # noqa: PLR2004
    except (urllib.error.URLError, OSError):
        return False


def is_ready(port: int, since: datetime) -> bool:
    """Return whether the web server answers and the worker started after `since` has reported itself."""
    from portal.ops.models import Worker

    worker = Worker.objects.filter(environment_slug=ENVIRONMENT, host=socket.gethostname(), started_at__gte=since)
    return answers(f"http://{HOST}:{port}/healthz/ready") and worker.exists()


def wait_until_ready(services: list[Service], check: Callable[[], bool], stop: Event) -> None:
    """Return when `check()` is true, or when `stop` is set. Raises DemoError or ServiceError."""
    deadline = time.monotonic() + READY_SECONDS
    while not check() and not stop.wait(0.2):
        revive_ended(services)
        if time.monotonic() > deadline:
            tails = "\n".join(f"{service.log}:\n{service.read_tail()}" for service in services)
            raise DemoError(f"The demo was not ready within {READY_SECONDS} seconds.\n{tails}")


def run(variables: Mapping[str, str]) -> None:
    """Run the demo until a signal ends it. Raises DemoError or ServiceError."""
    import django

    port, folder = read_port(variables), Path(variables.get("PORTAL_VAR", ROOT / "var"))
    check_writable(folder)
    check_alone(folder)
    check_port(port)
    say("Preparing the database, the pages and the tasks ...")
    check_sandbox()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
    os.environ.setdefault("PORTAL_ADDRESS", f"http://{HOST}:{port}")
    django.setup()
    sign_in = prepare_data()
    services, since = build_services(port, folder / "demo"), datetime.now(UTC)
    with running(services) as stop:
        wait_until_ready(services, lambda: is_ready(port, since), stop)
        if not stop.is_set():
            say(f"\n  Open     http://{HOST}:{port}/")
            say("  Sign in  {username} / {password}\n".format(**sign_in))
            say("Ctrl-C ends the demo.")
        keep_running(services, stop)
        say("Stopping ...")


def say(text: str) -> None:
    """Print one line at once."""
    print(text, flush=True)


def main() -> int:
    """Run the demo; return the exit code."""
    # When `make` is killed, the demo ends too.
    follow_parent(os.getppid())
    try:
        run(os.environ)
    except (DemoError, ServiceError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
