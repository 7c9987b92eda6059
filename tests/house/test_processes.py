"""Services: what starts is stopped, whoever dies first."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from portal.ops import processes
from portal.ops.processes import Service, ServiceError, keep_running, running
from tests.portal.processes import list_processes, wait_for

SLEEPER = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)"]
# Ignores the polite signal, and so does its own child.
STUBBORN = """
import signal, subprocess, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(subprocess.Popen(["sleep", "60"]).pid, flush=True)
time.sleep(60)
"""
PARENT = """
import os, sys, time
from pathlib import Path
from portal.ops.processes import Service, running
with running([Service("sleeper", ["sleep", "60"], Path(sys.argv[1]))]) as stop:
    print(os.getpid(), flush=True)
    stop.wait(60)
"""


def is_alive(process: int) -> bool:
    """Return whether `process` runs; a dead one that nobody reaped does not."""
    return any(number == process and state != "Z" for number, state, _ in list_processes())


def find_children(parent: int) -> list[int]:
    """Return the children of the process `parent`."""
    return [int(number) for number in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]


def test_services_run_inside_and_are_gone_after(tmp_path: Path) -> None:
    service = Service("sleeper", SLEEPER, tmp_path / "logs" / "sleeper.log")
    with running([service]):
        wait_for(lambda: service.read_tail() == "up\n")
        assert not service.has_ended()
    assert service.has_ended()


def test_services_are_stopped_after_an_error(tmp_path: Path) -> None:
    service = Service("sleeper", SLEEPER, tmp_path / "sleeper.log")
    with pytest.raises(ZeroDivisionError), running([service]):
        raise ZeroDivisionError
    assert service.has_ended()


def test_a_stubborn_service_is_killed_with_its_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "STOP_SECONDS", 0.2)
    service = Service("stubborn", [sys.executable, "-c", STUBBORN], tmp_path / "stubborn.log")
    with running([service]):
        wait_for(lambda: service.read_tail().endswith("\n"))
    child = int(service.read_tail())
    assert service.has_ended()
    wait_for(lambda: not is_alive(child))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_asks_to_stop(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with running([]) as stop:
        os.kill(os.getpid(), number)
        assert stop.wait(5)
    assert signal.getsignal(number) is before


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_no_service_outlives_its_parent(tmp_path: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-c", PARENT, str(tmp_path / "log")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert int(parent.stdout.readline()) == parent.pid
        (service,) = find_children(parent.pid)
        parent.send_signal(number)
        parent.wait(10)
    wait_for(lambda: not is_alive(service))


def test_a_service_that_ends_at_once_is_given_up_with_its_output(tmp_path: Path) -> None:
    service = Service("web server", [sys.executable, "-c", "print('no port')"], tmp_path / "web.log")
    with running([service]) as stop, pytest.raises(ServiceError, match=r"The web server ended soon(.|\n)*no port"):
        keep_running([service], stop)


def test_a_service_that_had_lived_is_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "SHORTEST_LIFE_SECONDS", 0)
    service = Service("sleeper", SLEEPER, tmp_path / "sleeper.log")
    with running([service]):
        assert service.process is not None
        first = service.process.pid
        service.process.kill()
        wait_for(service.has_ended)
        processes.revive_ended([service])
        assert service.process.pid != first
        assert not service.has_ended()
