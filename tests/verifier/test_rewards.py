"""The reward as one number, and the figures beside it."""

from __future__ import annotations

import asyncio
import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest

from verifier.rewards import NoReward, find_stage, list_figures, reward
from verifier.verdict import FailureCode as Code

TESTS = Path(__file__).resolve().parents[1]
EXAMPLES = TESTS.parent / "docs" / "examples"
HONEST = TESTS / "honest" / "l1_09_plain.py"
WRONG = TESTS / "exploits" / "softmax_instead.py"


@pytest.mark.parametrize(
    ("failures", "speedup", "stage", "expected"),
    [
        ([Code.ART_MISSING_FILE], None, 0, 0.0),
        ([Code.TAMPER_HARNESS], 9.0, 1, 0.0),
        ([Code.CORR_VALUE, Code.TAMPER_HARNESS], 9.0, 1, 0.0),
        ([Code.PERF_BELOW_FLOOR], 900.0, 1, 0.0),
        ([Code.ART_SYNTAX], None, 2, 0.02),
        ([Code.STRUCT_NO_TRITON], 2.0, 3, 0.04),
        ([Code.CORR_VALUE], 9.0, 4, 0.06),
        ([Code.PERF_SLOWER_THAN_BASELINE], 0.5, 5, 0.15),
        ([Code.PERF_BELOW_TARGET], 1.0, 5, 0.20),
        ([], 2.0, 6, 0.90),
        ([], 4.0, 7, 0.95),
    ],
)
def test_stages_are_in_the_order_of_rewards(
    failures: list[Code], speedup: float | None, stage: int, expected: float
) -> None:
    figures = list_figures(failures, speedup, 2.0, timed=True)
    assert (figures["stage"], figures["reward"]) == (stage, expected)
    assert (figures["accepted"], figures["passed"]) == (float(stage >= 5), float(stage >= 6))
    # What a stopwatch said of a rejected run is no figure of it.
    assert (figures["speedup"] > 0) == (stage >= 5)
    assert all(type(value) is float for value in figures.values())


def test_what_cannot_be_decided_is_no_zero() -> None:
    with pytest.raises(NoReward, match="INFRA_GPU_FAULT"):
        list_figures([Code.INFRA_GPU_FAULT], None, 2.0, timed=True)
    with pytest.raises(NoReward, match="no target"):
        list_figures([], 1.5, None, timed=True)
    assert list_figures([], None, None, timed=False)["reward"] == 0.1
    assert find_stage([], None, None) == 5


def test_a_function_gives_the_reward_of_a_file_or_a_text(tmp_path: Path) -> None:
    assert reward("l1-09", HONEST) == 0.1
    assert reward("sparsemax-rows", WRONG.read_text()) == 0.06
    assert reward("l1-09", "") == 0.0
    assert reward("l1-09", "\ud800") == 0.0
    assert reward("l1-09", tmp_path / "missing.py") == 0.0
    with pytest.raises(KeyError):
        reward("l9-99", HONEST)


def test_the_example_ranks_candidates(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for name, path in (("honest.py", HONEST), ("wrong.py", WRONG)):
        (tmp_path / name).write_bytes(path.read_bytes())
    runpy.run_path(str(EXAMPLES / "rank_candidates.py"))["main"](["l1-09", str(tmp_path)])
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["0.1000", "0.0600"]


def test_the_example_for_a_trainer_scores_what_a_model_wrote() -> None:
    example = runpy.run_path(str(EXAMPLES / "train_with_verifiers.py"))
    assert example["extract_code"]("Here it is:\n```python\nx = 1\n```\nor rather\n```python\nx = 2\n```") == "x = 2\n"
    assert example["extract_code"]("I cannot do that.") == ""
    assert example["score_answer"]("l1-09", f"```python\n{WRONG.read_text()}```") == 0.06
    assert example["score_answer"]("l1-09", "I cannot do that.") == 0.0
    assert "class Model" in example["make_prompt"]("l1-09")


def test_the_example_is_a_taskset_where_the_library_is_installed() -> None:
    vf = pytest.importorskip("verifiers.v1")
    example = runpy.run_path(str(EXAMPLES / "train_with_verifiers.py"))
    tasks = {task.data.name: task for task in example["KernelTasks"](vf.TasksetConfig())}
    assert "l1-09" in tasks
    trace = SimpleNamespace(last_reply="I cannot do that.")
    assert asyncio.run(tasks["l1-09"].verified(trace)) == 0.0
