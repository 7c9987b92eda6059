"""Recorded runs: the index, their verdicts, and the reference as a submission."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from verifier.cli import app
from verifier.cli_record import show_run
from verifier.exits import Exit
from verifier.modules import load_module, load_task_modules
from verifier.recording import (
    RecordedSubmission,
    find_verdict,
    load_index,
    load_verdict,
    read_submission,
    resubmit_reference,
    write_verdict,
)
from verifier.task import TaskError, find_tasks_root, load_task
from verifier.verdict import FailureCode, Outcome, Verdict

VERDICT = Path(__file__).resolve().parents[1] / "portal" / "verdicts" / "sparsemax_h200.json"
HEAD = 'schema = "kernelquest.recorded/1"\n'


def write_index(folder: Path, text: str) -> Path:
    (folder / "index.toml").write_text(HEAD + text, encoding="utf-8")
    return folder


def test_the_spotlights_index_is_sound() -> None:
    index = load_index(find_tasks_root() / "recorded" / "spotlight")
    assert (index.task, len(index.submissions)) == ("l2-01", 12)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[[submission]]\nname = "a"\n', "names its task"),
        ('task = "l1-09"\n[[submission]]\nname = "a"\n[[submission]]\nname = "a"\n', "names repeat"),
        ('task = "l1-09"\n[[submission]]\nname = "a"\nfile = "../secret.py"\n', "pattern"),
        ('task = "l1-09"\n[[submission]]\nname = "a"\nfile = "gone.py"\n', "gone.py is missing"),
        ('task = "l1-09"\n[[submission]]\nname = "a"\nexpected = "FAST"\n', "expected"),
        ('task = "l1-09"\n', "submission"),
    ],
)
def test_a_bad_index_is_named(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(TaskError, match=words) as caught:
        load_index(write_index(tmp_path, text))
    assert caught.value.path == tmp_path / "index.toml"


def test_a_verdict_is_read_as_it_was_written(tmp_path: Path) -> None:
    item = RecordedSubmission(name="certified", task="l1-09")
    verdict = Verdict.model_validate_json(VERDICT.read_bytes())
    assert load_verdict(tmp_path, "h200", item) is None
    path = write_verdict(tmp_path, item, verdict)
    assert path == find_verdict(tmp_path, "h200", item)
    assert load_verdict(tmp_path, "h200", item) == verdict
    path.write_text("{", encoding="utf-8")
    with pytest.raises(TaskError, match="JSON"):
        load_verdict(tmp_path, "h200", item)


def test_a_run_without_a_file_delivers_nothing(tmp_path: Path) -> None:
    assert read_submission(tmp_path, RecordedSubmission(name="nothing", task="l1-09")) == b""


@pytest.mark.parametrize("name", ["l1-01", "l1-09", "l2-01"])
def test_the_reference_alone_gives_the_references_results(name: str, tmp_path: Path) -> None:
    task = load_task(name)
    text = resubmit_reference(task, compiled=False)
    imported = {node.module for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)}
    assert not [module for module in imported if module and module.startswith("verifier")]
    assert "generate" not in text
    path = tmp_path / "solution.py"
    path.write_text(text, encoding="utf-8")
    modules, dims = load_task_modules(task), task.specification.dims.small
    inputs = modules.generate(task.specification.distributions[0].name, dims, torch.Generator().manual_seed(3))
    results = []
    for kind in (modules.reference.Model, load_module(path).ModelNew):
        torch.manual_seed(7)
        results.append(kind(*modules.get_init_inputs(dims))(*inputs.values()))
    assert torch.equal(*results)


def test_the_compiled_reference_is_the_same_model_compiled() -> None:
    text = resubmit_reference(load_task("l2-01"), compiled=True)
    classes = [node.name for node in ast.parse(text).body if isinstance(node, ast.ClassDef)]
    assert classes == ["Model", "ModelNew"]
    assert "torch.compile(super().forward)" in text


def test_recording_writes_each_verdict_and_leaves_out_what_is_there(tmp_path: Path) -> None:
    write_index(tmp_path, 'task = "l1-09"\n[[submission]]\nname = "nothing"\nexpected = "ART_MISSING_FILE"\n')
    command = ["record", str(tmp_path), "--environment", "cpu-interpreter"]
    runner = CliRunner()
    result = runner.invoke(app, command)
    assert result.exit_code == Exit.OK, result.output
    path = tmp_path / "verdicts" / "cpu-interpreter" / "nothing.json"
    written = path.read_bytes()
    assert runner.invoke(app, [*command, "--resume"]).exit_code == Exit.OK
    assert path.read_bytes() == written
    write_index(tmp_path, 'task = "l1-09"\n[[submission]]\nname = "nothing"\n')
    surprised = runner.invoke(app, [*command, "--resume"])
    assert surprised.exit_code == Exit.BELOW_TARGET
    assert "expected acceptance" in surprised.output


@pytest.mark.parametrize(
    ("outcome", "failures", "expected", "surprising"),
    [
        (Outcome.PASSED, [], "", False),
        (Outcome.BELOW_TARGET, [FailureCode.PERF_BELOW_TARGET], "", False),
        (Outcome.REJECTED, [FailureCode.CORR_VALUE], "", True),
        (Outcome.REJECTED, [FailureCode.CORR_VALUE, FailureCode.PERF_BELOW_TARGET], "CORR_VALUE", False),
        (Outcome.BELOW_TARGET, [FailureCode.PERF_BELOW_TARGET], "CORR_VALUE", True),
    ],
)
def test_an_honest_run_may_be_slow(
    outcome: Outcome, failures: list[FailureCode], expected: str, *, surprising: bool
) -> None:
    verdict = Verdict.model_validate_json(VERDICT.read_bytes())
    found = verdict.model_copy(update={"outcome": outcome, "failures": failures})
    item = RecordedSubmission.model_validate({"name": "run", "task": "l1-09", "expected": expected})
    assert show_run(item, found) is surprising
