"""A portal that runs as in the demo, and a browser that watches it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
START_SECONDS = 60


@dataclass(frozen=True)
class Portal:
    """A portal that runs, and who may sign in."""

    address: str
    username: str
    password: str
    variables: dict[str, str]


def manage(variables: dict[str, str], *arguments: str) -> str:
    command = [sys.executable, str(ROOT / "manage.py"), *arguments]
    return subprocess.run(command, env=variables, check=True, capture_output=True, text=True, timeout=120).stdout


@contextmanager
def keep_running(variables: dict[str, str], log: Path, *command: str) -> Iterator[None]:
    """Run `command` with all its children until the block ends."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=ROOT, env=variables, stdout=output, stderr=output, start_new_session=True
        )
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(20)
            finally:
                with ExitStack() as stack:
                    stack.callback(process.wait)
                    if process.poll() is None:
                        os.killpg(process.pid, signal.SIGKILL)


def find_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(address: str, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"{address}/healthz/ready", timeout=2) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    pytest.fail(f"the server did not start:\n{log.read_text()}")


@pytest.fixture(scope="module")
def portal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Portal]:
    """Start the server and a worker on a database of their own."""
    folder = tmp_path_factory.mktemp("portal")
    database = f"sqlite:///{folder / 'portal.sqlite3'}"
    variables = os.environ | {"PORTAL_VAR": str(folder), "DATABASE_URL": database, "PORTAL_DEBUG": "0"}
    manage(variables, "migrate", "--verbosity", "0")
    manage(variables, "collectstatic", "--no-input", "--verbosity", "0")
    manage(variables, "load_tasks")
    who = json.loads(manage(variables, "create_demo_data"))
    port = find_port()
    address = f"http://127.0.0.1:{port}"
    server = [
        sys.executable,
        "-m",
        "gunicorn",
        "portal.wsgi:application",
        "--bind",
        f"127.0.0.1:{port}",
        "--threads",
        "4",
    ]
    worker = [sys.executable, str(ROOT / "manage.py"), "worker", "--environment", "cpu-interpreter"]
    log = folder / "server.log"
    with keep_running(variables, log, *server), keep_running(variables, folder / "worker.log", *worker):
        wait_for(address, log)
        yield Portal(address, who["username"], who["password"], variables)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=sandbox)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser, portal: Portal) -> Iterator[Page]:
    """A page of somebody who has signed in; no error and no violation of the policy may show on its console."""
    context = browser.new_context(base_url=portal.address, viewport={"width": 1280, "height": 900})
    page = context.new_page()
    complaints: list[str] = []
    page.on(
        "console", lambda message: complaints.append(message.text) if message.type in ("error", "warning") else None
    )
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto("/sign-in/")
    page.get_by_label("Username").fill(portal.username)
    page.get_by_label("Password").fill(portal.password)
    page.get_by_role("main").get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("button", name="Sign out")).to_be_visible()
    yield page
    context.close()
    assert complaints == []
