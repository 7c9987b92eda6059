"""The demo: what it refuses, what it prints, and that it leaves nothing behind."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator
from http.cookiejar import CookieJar
from pathlib import Path

import pytest

from portal.ops import demo
from portal.ops.demo import HOST, ROOT, DemoError
from portal.ops.supervisor import hold_lock
from tests.house.test_processes import is_alive
from tests.portal.processes import wait_for

READY = re.compile(r"Open +(?P<address>http://\S+)\n +Sign in +(?P<username>\S+) / (?P<password>\S+)\n")


def find_free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def find_processes(mark: str) -> list[int]:
    """Return the live processes that have `mark` in their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            holds = mark.encode() in (folder / "environ").read_bytes()
        except OSError:
            continue
        if holds and is_alive(int(folder.name)):
            found.append(int(folder.name))
    return found


def test_the_port_comes_from_the_environment() -> None:
    assert demo.read_port({}) == demo.DEFAULT_PORT
    assert demo.read_port({"DEMO_PORT": "8123"}) == 8123


@pytest.mark.parametrize("text", ["", "http", "-1", "0", "65536", "80.5", "\u0663"])
def test_a_port_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(DemoError, match="make demo DEMO_PORT=8001"):
        demo.read_port({"DEMO_PORT": text})


def test_a_port_in_use_is_refused_with_the_way_out() -> None:
    with socket.socket() as holder:
        holder.bind((HOST, 0))
        holder.listen()
        port = holder.getsockname()[1]
        with pytest.raises(DemoError, match=rf"Port {port} .*make demo DEMO_PORT={port + 1}"):
            demo.check_port(port)
    demo.check_port(port)


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DemoError, match="make demo PORTAL_VAR=FOLDER"):
        demo.check_writable(tmp_path / "file" / "var")


def test_checking_a_folder_leaves_nothing_in_it(tmp_path: Path) -> None:
    demo.check_writable(tmp_path / "var")
    assert list((tmp_path / "var").iterdir()) == []


def test_a_folder_in_which_a_demo_runs_is_left_alone(tmp_path: Path) -> None:
    demo.check_alone(tmp_path)
    with hold_lock(tmp_path / "locks" / "cpu-interpreter.lock"), pytest.raises(DemoError, match="A demo runs in"):
        demo.check_alone(tmp_path)
    demo.check_alone(tmp_path)


def test_a_machine_without_sandbox_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    doctor = tmp_path / "python"
    doctor.write_text("#!/bin/sh\necho 'no user namespaces'\nexit 1\n", encoding="utf-8")
    doctor.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(doctor))
    with pytest.raises(DemoError, match=r"cannot be verified on this machine\.\nno user namespaces"):
        demo.check_sandbox()


class Running:
    """A demo as a newcomer starts it, on a folder and a port of its own."""

    def __init__(self, folder: Path) -> None:
        self.mark = f"PORTAL_VAR={folder}"
        variables = {**os.environ, "PORTAL_VAR": str(folder), "DEMO_PORT": str(find_free_port())}
        # The tests' own database is not the demo's.
        variables.pop("DATABASE_URL", None)
        self.output = folder.with_suffix(".txt")
        with self.output.open("wb") as output:
            command = ["make", "--no-print-directory", "demo", f"PYTHON={sys.executable}"]
            self.process = subprocess.Popen(command, cwd=ROOT, env=variables, stdout=output, stderr=subprocess.STDOUT)

    def read(self) -> str:
        """Return what was printed so far."""
        return self.output.read_text(encoding="utf-8")

    def wait_until_open(self) -> re.Match[str]:
        """Return address and sign-in as soon as they are printed."""
        wait_for(lambda: "Ctrl-C" in self.read() or self.process.poll() is not None, seconds=120)
        match = READY.search(self.read())
        assert match, self.read()
        return match

    def find_processes(self) -> list[int]:
        """Return all processes that belong to it."""
        return find_processes(self.mark)


@pytest.fixture
def running_demo(tmp_path: Path) -> Iterator[Running]:
    """Yield a started demo, and end whatever a failed test leaves of it."""
    started = Running(tmp_path / "var")
    yield started
    for process in started.find_processes():
        os.kill(process, signal.SIGKILL)
    started.process.wait()


def sign_in(address: str, username: str, password: str) -> str:
    """Sign in as a browser does and return the address of the page that follows."""
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
    page = opener.open(f"{address}sign-in/").read().decode()
    token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page)
    assert token
    fields = {"login": username, "password": password, "csrfmiddlewaretoken": token[1]}
    return str(opener.open(f"{address}sign-in/", urllib.parse.urlencode(fields).encode()).url)


def test_the_demo_prints_one_address_and_one_working_sign_in_and_ends_cleanly(running_demo: Running) -> None:
    printed = running_demo.wait_until_open()
    assert running_demo.read().count("http://") == 1
    address = printed["address"]
    assert "/sign-in/" not in sign_in(address, printed["username"], printed["password"])
    assert "/sign-in/" in sign_in(address, printed["username"], "wrong")
    (launcher,) = [number for number in running_demo.find_processes() if is_launcher(number)]
    os.kill(launcher, signal.SIGINT)
    assert running_demo.process.wait(30) == 0
    assert "Traceback" not in running_demo.read()
    wait_for(lambda: not running_demo.find_processes())


def test_a_killed_demo_leaves_no_process(running_demo: Running) -> None:
    running_demo.wait_until_open()
    assert len(running_demo.find_processes()) > 3
    running_demo.process.kill()
    wait_for(lambda: not running_demo.find_processes(), seconds=30)


def is_launcher(process: int) -> bool:
    """Return whether `process` is the demo's own."""
    return b"portal.ops.demo" in Path(f"/proc/{process}/cmdline").read_bytes()
