"""What the GPU's counters say of a kernel, read from the profiler's own table."""

from __future__ import annotations

import csv
import io

import pytest
from typer.testing import CliRunner

from verifier.cli import app
from verifier.counters import (
    DURATION,
    STALL,
    UNITS,
    WARPS,
    describe_limit,
    list_metrics,
    read_launches,
    summarise,
)
from verifier.exits import Exit

MEMORY = UNITS["memory"]
LOADS = STALL.format("long_scoreboard")


def write_table(*rows: dict[str, str]) -> list[str]:
    """Return what the profiler prints: its own words, names, units, and a row for each launch."""
    names = ["ID", "Kernel Name", *list_metrics()]
    text = io.StringIO()
    writer = csv.DictWriter(text, names, quoting=csv.QUOTE_ALL, restval="")
    writer.writeheader()
    writer.writerow({"ID": "", DURATION: "ns", MEMORY: "%"})
    writer.writerows(rows)
    return ["==PROF== Connected to process 12", "what the program prints", *text.getvalue().splitlines()]


def test_launches_are_read_by_kernel_the_longest_first() -> None:
    lines = write_table(
        {"ID": "0", "Kernel Name": "first", DURATION: "1,000", MEMORY: "81.25", LOADS: "3.5", WARPS: "50"},
        {"ID": "1", "Kernel Name": "second", DURATION: "6000", MEMORY: "12", LOADS: "9.25", WARPS: "25"},
        {"ID": "2", "Kernel Name": "first", DURATION: "3,000", MEMORY: "85", LOADS: "3", WARPS: "50"},
    )
    second, first = summarise(read_launches(lines))
    assert (second.name, second.launches, second.milliseconds, second.share) == ("second", 1, 0.006, 0.6)
    assert (first.name, first.launches, first.milliseconds, first.share) == ("first", 2, 0.004, 0.4)
    assert first.percent_of_peak == {"memory": 85.0}
    assert first.held_back_by == "memory, at 85 % of its peak"
    assert second.stalls == {"long_scoreboard": 9.25}
    assert second.held_back_by.startswith("waiting for loads from memory or L2; 25 % of the warps that fit")


def test_a_counter_that_a_gpu_lacks_is_left_out() -> None:
    (launch,) = read_launches(write_table({"Kernel Name": "k", DURATION: "10", MEMORY: "n/a"}))
    assert dict(launch.counters) == {DURATION: 10.0}


def test_without_a_table_there_are_no_launches() -> None:
    assert read_launches(["==ERROR== no kernels were profiled"]) == []
    assert summarise([]) == []


@pytest.mark.parametrize(
    ("units", "stalls", "words"),
    [
        ({"memory": 59.9, "L2": 60.0}, {"wait": 2.0}, "L2, at 60 %"),
        ({"memory": 59.9}, {"wait": 2.0, "barrier": 3.0}, "waiting for other warps at a barrier"),
        ({}, {}, "unknown"),
    ],
)
def test_a_busy_unit_comes_before_what_warps_wait_for(
    units: dict[str, float], stalls: dict[str, float], words: str
) -> None:
    assert describe_limit(units, stalls, 40.0).startswith(words)


def test_a_host_without_the_profiler_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    result = CliRunner().invoke(app, ["study", "limits", "l1-09"])
    assert result.exit_code == Exit.BELOW_TARGET
    assert "Nsight Compute (ncu) is not on the PATH" in result.output
