"""The examination of a task: what it finds on sound ones, and on ones that are spoilt in one way each."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from verifier.admission import AdmissionReport
from verifier.cli import app
from verifier.environment import load_environment
from verifier.examination import Admission, Precision, keep_bits, skip_rows
from verifier.exits import Exit
from verifier.task import Task, find_tasks_root, load_task, load_task_folder

ENVIRONMENT = load_environment("cpu-interpreter")


def examine(task: Task) -> AdmissionReport:
    admission = Admission(task, ENVIRONMENT)
    return admission.report(list(admission.run()))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of sparsemax that may be spoilt."""
    shutil.copytree(find_tasks_root() / "l1" / "sparsemax-rows", tmp_path / "l1" / "sparsemax-rows")
    return tmp_path / "l1" / "sparsemax-rows"


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


@pytest.mark.parametrize("name", ["l1-01", "l1-09", "l2-01"])
def test_sound_tasks_are_admitted(name: str) -> None:
    report = examine(load_task(name))
    assert report.admitted, [finding for finding in report.findings if not finding.ok]
    assert {finding.distribution for finding in report.findings} == {
        item.name for item in load_task(name).specification.distributions
    }


def test_a_budget_that_takes_everything_is_found(folder: Path) -> None:
    edit(folder / "task.toml", "atol = 2e-6", "atol = 2.0")
    report = examine(load_task_folder(folder))
    assert not report.admitted
    assert "zeros" in {finding.test for finding in report.findings if not finding.ok}
    assert report.unexposed == ["tf32", "fp16", "bf16"]
    assert report.insensitive == ["z"]


def test_a_reference_that_is_not_precise_enough_is_found(folder: Path) -> None:
    edit(folder / "reference.py", "return (shifted - tau)", "return (shifted - tau + 1.5e-6)")
    report = examine(load_task_folder(folder))
    assert {finding.test for finding in report.findings if not finding.ok} == {"eager reference"}


def test_a_generator_whose_results_never_change_is_found(folder: Path) -> None:
    edit(folder / "hidden.py", "def compute_oracle(", "def compute_other(")
    with (folder / "hidden.py").open("a", encoding="utf-8") as file:
        file.write(
            "\n\ndef compute_oracle(inputs, state, dims):\n    return (torch.ones_like(inputs['z']).double(),)\n"
        )
    report = examine(load_task_folder(folder))
    failing = {finding.test for finding in report.findings if not finding.ok}
    assert {"mean", "replay of another call"} <= failing
    assert report.insensitive == ["z"]


@pytest.mark.parametrize(("bits", "rounded"), [(24, 1.0 + 2.0**-23), (11, 1.0), (8, 1.0)])
def test_bits_are_kept_to_the_nearest(bits: int, rounded: float) -> None:
    assert keep_bits(torch.tensor([1.0 + 2.0**-23], dtype=torch.float64), bits).item() == rounded


def test_a_format_rounds_as_torch_does() -> None:
    values = torch.randn(1000, generator=torch.Generator().manual_seed(1))
    assert torch.equal(keep_bits(values.double(), 11), values.half().double())
    assert torch.equal(keep_bits(values.double(), 8), values.bfloat16().double())
    spoilt = Precision("fp16", 11, 65504.0).spoil({"x": torch.tensor([1e6, -1e6]), "place": torch.tensor([7])})
    assert spoilt["x"].tolist() == [float("inf"), -float("inf")]
    assert spoilt["place"].tolist() == [7]


def test_rows_that_are_left_out_were_not_zero() -> None:
    oracle = torch.zeros(300, 4, dtype=torch.float64)
    oracle[100:300] = 1.0
    skipped = skip_rows(oracle, torch.Generator().manual_seed(2))
    changed = (skipped != oracle).any(dim=-1)
    assert int(changed.sum()) == 2
    assert not changed[:100].any()
    assert (skip_rows(torch.ones(5, dtype=torch.int64), torch.Generator()) == 0).sum() == 1


def test_the_command_prints_a_table_or_a_report_of_its_schema(folder: Path) -> None:
    runner = CliRunner()
    result = runner.invoke(app, ["task", "admit", "l1-09", "--no-fixtures"])
    assert result.exit_code == Exit.OK
    assert "admitted l1-09 in cpu-interpreter" in result.output
    edit(folder / "task.toml", "atol = 2e-6", "atol = 2.0")
    result = runner.invoke(app, ["task", "admit", str(folder), "--no-fixtures", "--json"])
    assert result.exit_code == Exit.USAGE
    report = AdmissionReport.model_validate(json.loads(result.stdout))
    assert not report.admitted
    schema = json.loads(runner.invoke(app, ["schema", "admission"]).stdout)
    assert set(json.loads(result.stdout)) == set(schema["properties"])


def test_certifying_needs_an_environment_that_times() -> None:
    result = CliRunner().invoke(app, ["certify", "l1-09", "--environment", "cpu-interpreter"])
    assert result.exit_code == Exit.USAGE
    result = CliRunner().invoke(app, ["certify", "l1-09", "--environment", "h200", "--json"])
    assert result.exit_code == Exit.TRANSIENT
    assert "needs torch 2.11.0" in json.loads(result.stdout)["error"]["message"]
