"""The walls of the sandbox, each tried by a program inside it."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from verifier import sandbox

ATTACKS = Path(__file__).with_name("attacks.py")
LIMITS = sandbox.Limits(memory=600 << 20, processes=40, scratch=32 << 20, file_size=64 << 20)


def attack(name: str, *arguments: str, seconds: float = 30.0) -> sandbox.Process:
    """Run one attack to its end."""
    command = [*sandbox.python_command(), "/kq/attacks.py", name, *arguments]
    process = sandbox.start(command, shown={"/kq/attacks.py": ATTACKS}, limits=LIMITS)
    process.finish(seconds)
    return process


@pytest.mark.parametrize(
    "name", ["network", "secrets", "writing", "kernel", "identity", "disk", "forks", "descriptors"]
)
def test_an_attack_is_blocked(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgres://hidden")
    monkeypatch.setenv("SECRET_KEY", "hidden")
    output = attack(name).output()
    assert "blocked" in output
    assert "ESCAPED" not in output


def test_the_projects_files_are_out_of_sight(tmp_path: Path) -> None:
    (tmp_path / "hidden.txt").write_text("hidden")
    root = Path(__file__).resolve().parents[2]
    output = attack(
        "files", str(root), str(root / "verifier" / "judge.py"), str(tmp_path / "hidden.txt"), str(Path.home())
    ).output()
    assert output.count("blocked") >= 10
    # The folders above what is shown exist, and hold nothing else.
    assert all(line.endswith(("[]", "['.pyenv']")) for line in output.splitlines() if "ESCAPED" in line)


def test_other_processes_are_out_of_reach() -> None:
    output = attack("processes", str(os.getppid())).output()
    assert output.count("blocked") == 2


def test_a_tree_that_eats_memory_is_killed() -> None:
    process = attack("memory")
    assert process.reason == "out of memory"
    assert "ESCAPED" not in process.output()


def test_an_inherited_descriptor_stays_outside() -> None:
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    try:
        assert "ESCAPED" not in attack("descriptors").output()
    finally:
        os.close(reading)
        os.close(writing)


def count_processes(argument: str) -> int:
    listing = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    return sum(line == f"sleep {argument}" for line in listing.splitlines())


def test_nothing_outlives_the_box() -> None:
    attack("daemon", "31313", seconds=2.0)
    deadline = time.monotonic() + 5
    while count_processes("31313") and time.monotonic() < deadline:
        time.sleep(0.1)
    assert count_processes("31313") == 0


def test_the_processor_time_of_a_tree_is_known() -> None:
    spin = "for _ in range(10**8): pass"
    command = ["/bin/sh", "-c", f'python3 -c "{spin}"; exec sleep 30'.replace("python3", sandbox.python_command()[0])]
    busy, idle = (
        sandbox.start(command, shown={}, limits=LIMITS),
        sandbox.start(["/bin/sleep", "30"], shown={}, limits=LIMITS),
    )
    try:
        deadline = time.monotonic() + 20
        while busy.measure_cpu() < 0.2 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert busy.measure_cpu() >= 0.2
        assert idle.measure_cpu() < 0.2
    finally:
        for process in (busy, idle):
            process.kill("seen")
            process.finish()


def test_a_killed_box_leaves_nothing() -> None:
    command = ["/bin/sh", "-c", "sleep 41414 & sleep 41414"]
    process = sandbox.start(command, shown={}, limits=LIMITS)
    deadline = time.monotonic() + 10
    while count_processes("41414") < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert count_processes("41414") == 2
    process.kill("time-out")
    process.finish()
    assert count_processes("41414") == 0
    assert process.reason == "time-out"


def test_everything_that_was_printed_is_read() -> None:
    for number in range(10):
        reading, writing = os.pipe()
        script = f"import os, time; print('line', {number}); os.write({writing}, b'printed'); time.sleep(30)"
        command = [*sandbox.python_command(), "-c", script]
        process = sandbox.start(command, shown={}, limits=LIMITS, descriptors=[writing])
        os.close(writing)
        assert os.read(reading, 100) == b"printed"
        process.end_output()
        assert process.output() == f"line {number}\n"
        process.finish()
        os.close(reading)


def test_a_flood_of_output_is_cut() -> None:
    process = sandbox.start(["/bin/sh", "-c", "exec cat /dev/zero"], shown={}, limits=LIMITS)
    process.finish(20)
    assert process.reason == "output flood"
    assert len(process.output()) <= sandbox.OUTPUT_HEAD + sandbox.OUTPUT_TAIL + 100


def test_the_box_is_empty_of_the_portal() -> None:
    """A submission may import what PACKAGES names, and no other package of the environment."""
    code = "import importlib.util as u; print([n for n in ('django', 'portal', 'psycopg', 'verifier.judge') if u.find_spec(n.split('.')[0])])"
    process = sandbox.start([*sandbox.python_command(), "-c", code], shown={}, limits=LIMITS)
    assert process.finish(20) == 0
    assert process.output().strip() == "[]"


def test_a_host_without_a_sandbox_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "find_bubblewrap", lambda: "/bin/false")
    sandbox.probe.cache_clear()
    try:
        with pytest.raises(sandbox.SandboxUnavailable, match="refuses to judge"):
            sandbox.probe()
    finally:
        sandbox.probe.cache_clear()


def test_a_box_sees_the_device_files_of_one_gpu(tmp_path: Path) -> None:
    for name in ("nvidia0", "nvidia1", "nvidia10", "nvidiactl", "nvidia-uvm", "null"):
        (tmp_path / name).touch()
    (tmp_path / "nvidia-caps").mkdir()
    assert [Path(path).name for path in sandbox.list_gpu_files(1, tmp_path)] == ["nvidia-uvm", "nvidia1", "nvidiactl"]
