"""What a bench says of one file."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from verifier.cli import app
from verifier.exits import Exit
from verifier.studies import BenchRow, count_compared, read_bench
from verifier.verdict import Verdict

VERDICT = Path(__file__).resolve().parents[1] / "portal" / "verdicts" / "sparsemax_h200.json"
FILE = Path("certified.py")


@pytest.fixture(scope="module")
def verdict() -> Verdict:
    return Verdict.model_validate_json(VERDICT.read_bytes())


def test_a_row_has_the_figures_of_the_measurement(verdict: Verdict) -> None:
    timing = verdict.evidence.timing
    assert timing is not None
    row = read_bench(FILE, verdict)
    assert (row.file, row.error, row.judgement) == ("certified.py", "", "faster")
    assert row.candidate_ms == pytest.approx(timing.sides["candidate"].mean, abs=1e-6)
    assert row.speedup == pytest.approx(timing.speedup, abs=1e-4)


def test_results_that_were_compared_are_counted(verdict: Verdict) -> None:
    gates = [
        result.model_copy(
            update={
                "checks": [
                    item.model_copy(update={"detail": "27 were compared"}) if item.name == "timed_outputs" else item
                    for item in result.checks
                ]
            }
        )
        for result in verdict.gates
    ]
    assert count_compared(verdict.model_copy(update={"gates": gates})) == 27


def test_a_failed_measurement_says_why(verdict: Verdict) -> None:
    evidence = verdict.evidence.model_copy(update={"timing": None, "error": "out of memory"})
    row = read_bench(FILE, verdict.model_copy(update={"evidence": evidence}))
    assert (row.speedup, row.interval, row.error, row.judgement) == (None, None, "out of memory", "failed")


@pytest.mark.parametrize(
    ("interval", "judgement"),
    [((1.01, 1.2), "faster"), ((0.8, 0.99), "slower"), ((0.99, 1.01), "indistinguishable"), (None, "failed")],
)
def test_the_interval_decides(interval: tuple[float, float] | None, judgement: str) -> None:
    row = BenchRow(file="x", speedup=1.0, interval=interval, candidate_ms=1.0, eager_ms=1.0, compiled_ms=1.0)
    assert row.judgement == judgement


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["l1-09", "x.py", "--environment", "cpu-interpreter"], "nothing is timed"),
        (["l1-09", "nowhere.py", "--environment", "h200"], "there is no file nowhere.py"),
    ],
)
def test_what_cannot_be_timed_is_refused(arguments: list[str], words: str) -> None:
    result = CliRunner().invoke(app, ["bench", *arguments, "--json"])
    assert result.exit_code == Exit.USAGE
    assert words in result.stdout
