"""What decides a verdict around the gates: outcomes, gates that were not reached, certificates, memory and limits."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from verifier.certificate import load_certificate
from verifier.environment import load_environment
from verifier.faults import InfrastructureFault
from verifier.judge import NOT_TIMED, ROOM_A_TENSOR, Plan, Verification, decide_outcome, measure_slab, share_memory
from verifier.limits import GPU_LIMITS, ROUNDS, TimeLimits, choose_limits
from verifier.task import Task, TaskError, load_task, load_tasks
from verifier.trial import check
from verifier.verdict import FailureCode, Gate, GateStatus, Outcome
from verifier.worker import Workers

PASSED, FAILED, SKIPPED, UNTIMED = (
    GateStatus.PASSED,
    GateStatus.FAILED,
    GateStatus.SKIPPED,
    GateStatus.NOT_TIMED,
)


@pytest.fixture
def task() -> Task:
    return load_task("l1-09")


def verification(task: Task, environment: str) -> Verification:
    return Verification(task, b"", load_environment(environment))


@pytest.mark.parametrize(
    ("failures", "target", "outcome"),
    [
        ([], None, Outcome.ACCEPTED),
        ([], 1.5, Outcome.PASSED),
        (["PERF_BELOW_TARGET"], 1.5, Outcome.BELOW_TARGET),
        (["PERF_SLOWER_THAN_BASELINE", "PERF_BELOW_TARGET"], 1.5, Outcome.BELOW_TARGET),
        (["PERF_SLOWER_THAN_BASELINE"], None, Outcome.BELOW_TARGET),
        (["PERF_BELOW_FLOOR"], 1.5, Outcome.REJECTED),
        (["PERF_BELOW_FLOOR", "PERF_BELOW_TARGET"], 1.5, Outcome.REJECTED),
        (["TIMING_SIDESTEP"], 1.5, Outcome.REJECTED),
        (["CORR_VALUE", "PERF_SLOWER_THAN_BASELINE"], 1.5, Outcome.REJECTED),
        (["INFRA_UNSTABLE_TIMING"], 1.5, Outcome.INFRASTRUCTURE),
        (["INFRA_EVIDENCE_LOST", "CORR_VALUE"], None, Outcome.INFRASTRUCTURE),
    ],
)
def test_the_outcome_follows_from_the_failures(failures: list[str], target: float | None, outcome: Outcome) -> None:
    assert decide_outcome([FailureCode(code) for code in failures], target=target) is outcome


def list_statuses(found: Verification) -> list[GateStatus]:
    """Return the status of every gate in order."""
    gates = found.list_gates()
    assert [item.gate for item in gates] == list(Gate)
    return [item.status for item in gates]


def test_gates_that_were_not_reached_are_skipped(task: Task) -> None:
    found = verification(task, "cpu-interpreter")
    assert list_statuses(found) == [SKIPPED] * 5
    found.finish_gate(Gate.INTAKE, [check("x", "x", passed=False, code=FailureCode.ART_SYNTAX)], 0.1)
    assert list_statuses(found) == [FAILED, SKIPPED, SKIPPED, SKIPPED, SKIPPED]


def test_what_was_graded_without_a_gpu_is_not_timed(task: Task) -> None:
    found = verification(task, "cpu-interpreter")
    for gate in (Gate.INTAKE, Gate.STRUCTURAL, Gate.CORRECTNESS, Gate.POLICY):
        found.finish_gate(gate, [check("x", "x", passed=True), check("y", "y", passed=None)], 0.1)
    assert list_statuses(found) == [PASSED, PASSED, PASSED, PASSED, UNTIMED]
    assert found.list_gates()[-1].note == NOT_TIMED


def test_an_untimed_gate_of_a_gpu_is_skipped(task: Task) -> None:
    found = verification(task, "h200")
    for gate in (Gate.INTAKE, Gate.STRUCTURAL, Gate.CORRECTNESS, Gate.POLICY):
        found.finish_gate(gate, [check("x", "x", passed=True)], 0.1)
    assert list_statuses(found)[-1] is SKIPPED


def test_lost_evidence_hides_what_it_may_have_caused_and_nothing_certain(task: Task) -> None:
    found = verification(task, "cpu-interpreter")
    found.lose(InfrastructureFault("no model of tt.histogram"))
    assert found.rank([FailureCode.CORR_VALUE]) == [FailureCode.INFRA_EVIDENCE_LOST, FailureCode.CORR_VALUE]
    assert found.rank([FailureCode.CORR_VALUE, FailureCode.PREC_TF32])[0] is FailureCode.PREC_TF32


def test_the_first_fault_is_the_one_that_is_told(task: Task) -> None:
    found = verification(task, "h200")
    found.lose(InfrastructureFault("throttled", FailureCode.INFRA_UNSTABLE_TIMING))
    found.lose(InfrastructureFault("box gone"))
    verdict = found.conclude()
    assert (verdict.outcome, verdict.failures) == (Outcome.INFRASTRUCTURE, [FailureCode.INFRA_UNSTABLE_TIMING])
    assert (verdict.evidence.error, verdict.reward) == ("throttled", None)


@pytest.mark.parametrize("slug", ["cpu-interpreter", "h200"])
@pytest.mark.parametrize("task", load_tasks(), ids=lambda task: task.id)
def test_a_slab_has_room_for_every_set_of_tensors(task: Task, slug: str) -> None:
    environment, specification = load_environment(slug), task.specification
    dims = specification.dims.timed if slug == "h200" else specification.dims.small
    size = measure_slab(task, environment)
    state = specification.list_state(dims)
    for group in (specification.inputs, state, specification.outputs):
        assert size >= sum(-(-item.measure(dims) // ROOM_A_TENSOR) * ROOM_A_TENSOR for item in group)
    groups = (specification.inputs, state, specification.outputs)
    largest = max(sum(item.measure(dims) for item in group) for group in groups)
    assert size <= largest + max(len(group) for group in groups) * ROOM_A_TENSOR


def test_the_slab_of_sparsemax_is_one_matrix(task: Task) -> None:
    assert measure_slab(task, load_environment("cpu-interpreter")) == 8 * 256 * 4 + ROOM_A_TENSOR
    assert measure_slab(task, load_environment("h200")) == 8192 * 4096 * 4 + ROOM_A_TENSOR


def test_shared_memory_has_its_size_and_is_closed_at_the_end() -> None:
    with share_memory(12_345) as descriptor:
        assert os.fstat(descriptor).st_size == 12_345
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_a_worker_serves_the_next_verification_of_its_task_unless_it_failed() -> None:
    task, environment = load_task("l1-09"), load_environment("cpu-interpreter")
    with Workers() as workers:
        with workers.borrow(task, environment, 4096) as first, workers.borrow(task, environment, 4096) as second:
            assert first is not second
        with workers.borrow(task, environment, 4096) as again:
            assert again in (first, second)
        with pytest.raises(InfrastructureFault), workers.borrow(task, environment, 4096) as failed:
            raise InfrastructureFault("lost")
        assert failed.process.poll() is not None
        with workers.borrow(task, environment, 4096) as other:
            assert other is not failed
    assert all(worker.process.poll() is not None for worker in (first, second))


def test_few_idle_workers_are_kept() -> None:
    task, environment = load_task("l1-09"), load_environment("cpu-interpreter")
    with Workers(most_idle=1) as workers:
        with workers.borrow(task, environment, 4096) as first, workers.borrow(task, environment, 4096) as second:
            pass
        # The inner one came back first, so it was idle for the longest time.
        assert second.process.poll() is not None
        with workers.borrow(task, environment, 4096) as again:
            assert again is first


def write_certificate(root: Path, task: Task, text: str) -> Task:
    """Return the task as if it lay in `root`, with a certificate of the environment h200."""
    path = root / "certificates" / "h200.json"
    path.parent.mkdir()
    path.write_text(text, encoding="utf-8")
    return task.model_copy(update={"path": root})


def test_a_task_without_a_certificate_has_no_target(task: Task, tmp_path: Path) -> None:
    found = write_certificate(tmp_path, task, json.dumps({"schema": "kernelquest.certificate/1", "target": 1.63}))
    assert load_certificate(found, "l40s") is None


def test_a_certificate_gives_the_target_and_may_say_more(task: Task, tmp_path: Path) -> None:
    text = json.dumps({"schema": "kernelquest.certificate/1", "target": 1.63, "driver": "570.1", "samples": [1.0]})
    found = load_certificate(write_certificate(tmp_path, task, text), "h200")
    assert found is not None
    assert found.target == 1.63


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('{"schema": "kernelquest.certificate/1", "target": 0}', "target"),
        ('{"schema": "kernelquest.certificate/1", "target": -1.5}', "target"),
        ('{"schema": "kernelquest.certificate/1", "target": "fast"}', "target"),
        ('{"schema": "kernelquest.certificate/1"}', ""),
        ('{"schema": "kernelquest.certificate/1", "certified": false}', ""),
        ('{"schema": "kernelquest.certificate/1", "certified": false, "reason": "slow", "target": 2}', ""),
        ('{"schema": "kernelquest.certificate/2", "target": 1.5}', "schema"),
        ('{"target": 1.5}', "schema"),
        ("[]", ""),
        ('{"target": ', ""),
        ("", ""),
    ],
)
def test_a_malformed_certificate_is_named_with_file_key_and_reason(
    task: Task, tmp_path: Path, text: str, key: str
) -> None:
    found = write_certificate(tmp_path, task, text)
    with pytest.raises(TaskError) as caught:
        load_certificate(found, "h200")
    assert (caught.value.path, caught.value.key) == (tmp_path / "certificates" / "h200.json", key)
    assert caught.value.reason


def test_a_gpu_leaves_time_for_an_autotuner() -> None:
    limits = {slug: choose_limits(load_environment(slug)) for slug in ("cpu-interpreter", "h200", "l40s")}
    assert limits == {"cpu-interpreter": TimeLimits(), "h200": GPU_LIMITS, "l40s": GPU_LIMITS}
    assert GPU_LIMITS.first_call > TimeLimits().first_call


def test_a_verification_has_the_limits_and_rounds_of_its_environment(task: Task) -> None:
    assert verification(task, "h200").plan == Plan(GPU_LIMITS, rounds=ROUNDS, turns=None)
    assert verification(task, "cpu-interpreter").plan.limits == TimeLimits()
