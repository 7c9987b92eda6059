from __future__ import annotations

import json
import py_compile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
from typer.testing import CliRunner

from verifier.cli import app
from verifier.doctor import HOTTEST_IDLE, check_bytecode, check_cache, describe_probe, find_gpu_fix
from verifier.environment import load_environment
from verifier.evidence.clocks import Gpu, Readings
from verifier.exits import Exit

H200 = load_environment("h200")
WELL: dict[str, Any] = {
    "user": 65534,
    "name": "NVIDIA H200",
    "milliseconds": 0.04125,
    "held": True,
    "activities": 3,
    "host_memory_reachable": False,
}


def test_a_box_in_which_everything_works_needs_nothing() -> None:
    finding = describe_probe(WELL)
    assert finding.ok
    assert finding.to_dict() == {
        "name": "gpu in the box",
        "found": "NVIDIA H200, a held copy took 0.041 ms, 3 profiled activities",
        "fix": "",
        "ok": True,
    }


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        ({"held": False}, "stream memory operations"),
        ({"activities": 0}, "NVreg_RestrictProfilingToAdminUsers=0"),
        ({"host_memory_reachable": True}, "uvm_disable_hmm=1"),
        ({"held": False, "activities": 0, "host_memory_reachable": True}, "stream memory operations"),
        ({"activities": 0, "host_memory_reachable": True}, "profiler"),
    ],
)
def test_what_does_not_work_in_the_box_has_a_fix(seen: dict[str, Any], words: str) -> None:
    finding = describe_probe(WELL | seen)
    assert not finding.ok
    assert words in finding.fix


@dataclass(frozen=True)
class NamedGpu:
    """What the doctor needs of a GPU beside its readings."""

    name: str = "NVIDIA H200"


def make_readings(temperature: int = 35, slowed: str = "", foreign: tuple[int, ...] = ()) -> Readings:
    return Readings(
        sm_clocks=[1980],
        memory_clocks=[3201],
        temperatures=[temperature],
        watts=[80.0],
        slowed={slowed} - {""},
        foreign=set(foreign),
    )


@pytest.mark.parametrize(
    ("name", "readings", "words"),
    [
        ("NVIDIA L40S", make_readings(), "needs an NVIDIA H200"),
        ("NVIDIA H200", make_readings(foreign=(77, 12)), "processes 12, 77"),
        ("NVIDIA H200", make_readings(slowed="power brake"), "slowed down (power brake)"),
        ("NVIDIA H200", make_readings(temperature=HOTTEST_IDLE), "hot without work"),
        ("NVIDIA L40S", make_readings(90, "software thermal", (5,)), "needs an NVIDIA H200"),
        ("NVIDIA H200", make_readings(90, "software thermal", (5,)), "processes 5"),
    ],
)
def test_what_is_wrong_with_a_gpu_has_a_fix(name: str, readings: Readings, words: str) -> None:
    assert words in find_gpu_fix(cast(Gpu, NamedGpu(name)), readings, H200)


def test_the_right_gpu_cool_and_idle_needs_nothing() -> None:
    assert find_gpu_fix(cast(Gpu, NamedGpu()), make_readings(HOTTEST_IDLE - 1), H200) == ""


@pytest.mark.skipif(any(Path("/dev").glob("nvidia[0-9]*")), reason="this host has a GPU")
def test_a_host_without_a_gpu_says_no_and_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KQ_CACHE", str(tmp_path))
    result = CliRunner().invoke(app, ["doctor", "--environment", "h200", "--json"])
    report = json.loads(result.stdout)
    findings = {item["name"]: item for item in report["findings"]}
    assert result.exit_code == Exit.TRANSIENT
    assert (report["environment"], report["ok"]) == ("h200", False)
    assert all(findings[name]["fix"] and not findings[name]["ok"] for name in ("gpu", "gpu in the box"))
    assert "driver" in findings["gpu"]["fix"]
    assert findings["baseline cache"] == {"name": "baseline cache", "found": str(tmp_path), "fix": "", "ok": True}


def test_a_cache_that_cannot_be_written_has_a_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("KQ_CACHE", str(tmp_path / "file" / "cache"))
    finding = check_cache()
    assert not finding.ok
    assert "set KQ_CACHE" in finding.fix


def test_missing_bytecode_is_told_and_stops_nobody(tmp_path: Path) -> None:
    module = tmp_path / "torch" / "__init__.py"
    module.parent.mkdir()
    module.touch()
    missing = check_bytecode(tmp_path)
    assert missing.ok
    assert f"compileall -q -j 0 {tmp_path}" in missing.found
    py_compile.compile(str(module))
    assert check_bytecode(tmp_path).found == "PyTorch's modules are compiled"
