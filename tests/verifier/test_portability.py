"""Whether solutions fit a GPU that is not here: what a dry run finds of good ones and bad ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from typer.testing import CliRunner

from verifier.cli import app
from verifier.dry.run import examine_portability
from verifier.environment import load_environment
from verifier.exits import Exit
from verifier.portability import TaskPortability, count_spills
from verifier.selftest import find_fixture_task, read_fixture
from verifier.verdict import FailureCode

ROOT = Path(__file__).resolve().parents[1]
L40S = load_environment("l40s")
PARALLEL = 2
SPILLING = """
        /*0010*/                   STL [R1+0x4], R5 ;
        /*0020*/               @P0 STL.64 [R1], R2 ;
        /*0030*/                   LDL.LU.128 R4, [R1] ;
        /*0040*/              @!P1 LDL R9, [R1+0x8] ;
        /*0050*/                   LDG.E R5, [R2.64] ;
        /*0060*/                   LDSM.16.M88.4 R4, [R1] ;
"""
# Of the slow path for large arguments: the table is written and read at computed places, but for its last entry.
SINE = """
        /*02c0*/                   STL [R3], R4 ;
        /*0310*/                   STL [R1+0x18], R2 ;
        /*0320*/                   LDL R0, [R12+0x18] ;
        /*0340*/               @P0 LDL R7, [R12+0x10] ;
"""

runner = CliRunner()
Examine = Callable[[str], TaskPortability]


def examine_fixture(name: str) -> TaskPortability:
    fixture = read_fixture(ROOT / name)
    return examine_portability(find_fixture_task(fixture.task, ROOT), L40S, fixture.path)


@pytest.fixture(scope="module")
def examine() -> Iterator[Examine]:
    """What a dry run finds of a fixture; several are under way while the first tests ask."""
    names = (
        "exploits/too_much_shared_memory.py",
        "exploits/tf32_dot.py",
        "exploits/host_by_item.py",
        "exploits/library_only.py",
        "honest/autotune.py",
    )
    with ThreadPoolExecutor(PARALLEL) as pool:
        futures: dict[str, Future[TaskPortability]] = {name: pool.submit(examine_fixture, name) for name in names}
        yield lambda name: futures[name].result()
        for future in futures.values():
            future.cancel()


def test_a_kernel_that_needs_more_shared_memory_than_there_is_fails(examine: Examine) -> None:
    result = examine("exploits/too_much_shared_memory.py")
    (kernel,) = result.kernels
    assert result.failures == kernel.failures == [FailureCode.ART_COMPILE_ERROR]
    assert kernel.shared is not None
    assert kernel.shared > kernel.shared_limit == 101_376


def test_tensor_cores_on_an_fp32_task_fail(examine: Examine) -> None:
    result = examine("exploits/tf32_dot.py")
    assert result.failures == [FailureCode.PREC_TF32]
    assert sum(result.kernels[0].tensor_core.values()) > 0


def test_a_value_that_is_read_back_is_called_that(examine: Examine) -> None:
    result = examine("exploits/host_by_item.py")
    assert not result.ok
    assert result.error.startswith("The solution asks for a value that is computed on the device")


def test_a_solution_without_a_launch_fails(examine: Examine) -> None:
    result = examine("exploits/library_only.py")
    assert (result.failures, result.kernels) == ([FailureCode.STRUCT_NO_TRITON], [])


def test_every_configuration_of_an_autotuner_is_compiled(examine: Examine) -> None:
    result = examine("honest/autotune.py")
    assert result.ok, (result.failures, result.error)
    assert {kernel.options["num_warps"] for kernel in result.kernels} == {1, 2, 4, 8}
    assert len(result.kernels) == 8
    assert all(kernel.launches and kernel.registers for kernel in result.kernels)
    # At the timed dims: one program a row.
    assert {grid for kernel in result.kernels for grid in kernel.grids} == {(8192, 1, 1)}
    assert result.peak_bytes is not None
    assert result.peak_bytes >= 2 * 8192 * 4096 * 4


def test_spills_are_counted_in_bytes() -> None:
    assert count_spills(SPILLING) == (4 + 8, 16 + 4)


def test_the_table_of_a_sine_is_no_spill() -> None:
    assert count_spills(SINE) == (0, 0)
    assert count_spills(SINE + SPILLING) == (4 + 8, 16 + 4)


def test_the_command_prints_a_report_of_its_schema() -> None:
    result = runner.invoke(app, ["portability", "sparsemax-rows", "--json"])
    report = json.loads(result.stdout)
    assert (result.exit_code, report["ok"], report["architecture"]) == (Exit.OK, True, "sm_89")
    schema = json.loads(runner.invoke(app, ["schema", "portability"]).stdout)
    assert set(schema["required"]) <= set(report) == set(schema["properties"])


def test_the_command_says_in_its_exit_code_what_failed() -> None:
    path = str(ROOT / "exploits" / "tf32_dot.py")
    result = runner.invoke(app, ["portability", "l2-01", "--file", path])
    assert result.exit_code == Exit.POLICY
    assert "0 of 1 fit sm_89" in result.output
    assert "PREC_TF32" in result.output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "name some tasks"),
        (["l1-09", "--all"], "name some tasks"),
        (["l1-09", "l2-01", "--file", "x.py"], "exactly one task"),
        (["l1-09", "--environment", "cpu-interpreter"], "has no GPU to compile for"),
    ],
)
def test_a_wrong_request_says_what_is_wrong(arguments: list[str], words: str) -> None:
    result = runner.invoke(app, ["portability", *arguments])
    assert result.exit_code == Exit.USAGE
    assert words in " ".join(result.output.split())


def test_a_file_that_is_not_there_is_no_artifact() -> None:
    result = runner.invoke(app, ["portability", "l1-09", "--file", "absent.py"])
    assert result.exit_code == Exit.NO_ARTIFACT
