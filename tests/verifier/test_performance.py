"""The gate of performance on given times: what is timed, measured again or pooled, and which code follows.

The trial, the task, its inputs and its oracle are real. Stand-ins take the place of what needs a GPU: the submission's
session, the reference's process and the readings of the GPU.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
import torch

from verifier.compiler import LoadedCode
from verifier.environment import load_environment
from verifier.evidence import clocks
from verifier.evidence.clocks import Gpu, Readings
from verifier.faults import InfrastructureFault
from verifier.floor import compute_floor
from verifier.gates import performance
from verifier.gates.performance import SIDES, PerformanceGate
from verifier.limits import (
    CALLS_A_ROUND,
    HIDDEN_A_ROUND,
    LATER_WARM_UPS,
    PINNED,
    PROFILED_A_ROUND,
    REPEATED_ROUNDS,
    VERIFIED_A_ROUND,
    WARM_UPS,
)
from verifier.modules import TaskModules, load_task_modules
from verifier.referee import Reference
from verifier.session import CallRecord, CallResult, DeviceInput, Mode, OutputType, Session, Tensors
from verifier.task import load_task
from verifier.timing import MOST_QUEUED_LAUNCHES
from verifier.trial import Freshness, Trial
from verifier.verdict import Check, FailureCode

ROUNDS = 2
EXCHANGE_MILLISECONDS = 1.0
PATIENCE_SECONDS = 10.0
# Nothing of a warm-up call may count.
WARM_UP_MILLISECONDS = 500.0

Times = Callable[[int], float]


def steady(milliseconds: float) -> Times:
    """Return a side whose calls all take the same time."""
    return lambda number: milliseconds


def unsteady(milliseconds: float, share: float, until: int = 10**9) -> Times:
    """Return a side whose calls, up to number `until`, are by a share too short and too long in turn."""
    return lambda number: milliseconds * (1 + (share * (-1) ** number if number < until else 0.0))


@dataclass
class Script:
    """What the stand-ins answer, and what they were asked. Times in milliseconds, by number of the counted call."""

    eager: Times = field(default_factory=lambda: steady(2.0))
    compiled: Times = field(default_factory=lambda: steady(3.0))
    candidate: Times = field(default_factory=lambda: steady(1.0))
    queued_factor: float = 1.0
    outside_factor: float = 1.0
    launches: int = 1
    released_early: bool = False
    wrong: Callable[[Mode], bool] = lambda mode: False
    settings: dict[str, Any] = field(default_factory=lambda: dict(PINNED))
    disturbed: Callable[[int], bool] = lambda number: False
    order: list[str] = field(default_factory=list)
    seeds: list[int] = field(default_factory=list)
    cold: set[bool] = field(default_factory=set)
    modes: list[Mode] = field(default_factory=list)
    queues: list[int] = field(default_factory=list)
    meanwhile_seconds: float = 0.0


class StandInGpu:
    """A GPU whose readings are always the same, but for a slowdown that the script asks for."""

    name, uuid, driver = "NVIDIA H200", "GPU-0", "570.1"

    def __init__(self) -> None:
        self.slowed = False
        self.was_read = threading.Event()

    def list_processes(self) -> set[int]:
        return set()

    def read(self, readings: Readings, known: Collection[int]) -> None:
        readings.sm_clocks.append(1980)
        readings.memory_clocks.append(3201)
        readings.temperatures.append(45)
        readings.watts.append(300.0)
        if self.slowed:
            readings.slowed.add("software thermal")
        self.was_read.set()

    def work(self, *, slowed: bool) -> None:
        """Work until it has been read once, slowed down or not."""
        self.slowed = slowed
        self.was_read.clear()
        assert self.was_read.wait(PATIENCE_SECONDS)
        self.slowed = False


class StandInProcess:
    """A submission's process; what it uses of the processor is looked at before and after each round of the reference."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.looks = 0

    def measure_cpu(self) -> float:
        self.looks += 1
        return self.looks // 2 * self.script.meanwhile_seconds


class StandInReference:
    """The eager and the compiled reference; the GPU is slowed down while the eager one runs, where the script says."""

    def __init__(self, script: Script, gpu: StandInGpu) -> None:
        self.script, self.gpu = script, gpu
        self.rounds = 0

    def time(self, side: str, distribution: str, seeds: list[int], *, cold: bool) -> dict[str, Any]:
        script = self.script
        if side == "eager":
            self.gpu.work(slowed=script.disturbed(self.rounds))
            self.rounds += 1
        start = script.order.count(side) * CALLS_A_ROUND
        script.order.append(side)
        script.seeds += seeds
        script.cold.add(cold)
        times: Times = getattr(script, side)
        warm_ups = [WARM_UP_MILLISECONDS] * (len(seeds) - CALLS_A_ROUND)
        counted = [times(start + number) for number in range(CALLS_A_ROUND)]
        return {"milliseconds": warm_ups + counted, "released_early": 0, "settings": script.settings}

    def profile(self, side: str, distribution: str) -> float:
        times: Times = getattr(self.script, side)
        return times(0)


class StandInSession:
    """A submission that answers with the oracle's values, or with zeros where the script says that it is wrong."""

    where, poison, described = torch.device("cpu"), 7, {"flush_bytes": 1 << 20}

    def __init__(self, script: Script, modules: TaskModules, dims: dict[str, int]) -> None:
        self.script, self.modules, self.dims = script, modules, dims
        self.candidate_process = StandInProcess(script)
        self.given: dict[int, int] = {}
        self.held: dict[int, torch.Tensor] = {}
        self.calls_of_round = self.counted = 0

    def hold(self, tensor: torch.Tensor) -> dict[str, Any]:
        """Keep a tensor under a new handle and return its place."""
        handle = max(self.held, default=0) + 1
        self.held[handle] = tensor
        dtype = str(tensor.dtype).removeprefix("torch.")
        return {"handle": handle, "storage": handle, "shape": list(tensor.shape), "dtype": dtype}

    def put(self, tensors: Tensors) -> list[DeviceInput]:
        return [DeviceInput(name, self.hold(tensor.clone())) for name, tensor in tensors.items()]

    def read(self, described: list[dict[str, Any]]) -> list[torch.Tensor]:
        return [self.held[place["handle"]] for place in described]

    def drop(self, handles: list[int]) -> None:
        for handle in handles:
            del self.held[handle]

    def call(  # noqa: PLR0913 - as the session's
        self,
        instance: int,
        inputs: list[DeviceInput],
        expected: list[OutputType],
        *,
        mode: Mode = "checked",
        ablate: object = None,
        first: bool = False,
        read: bool = True,
    ) -> CallResult:
        self.script.modes.append(mode)
        values = {item.name: self.held[item.handle] for item in inputs}
        outputs = [value.float() for value in self.modules.compute_oracle(values, {}, self.dims)] if read else []
        if self.script.wrong(mode):
            outputs = [torch.zeros_like(output) for output in outputs]
        record = self.measure() if mode in ("cold", "warm") else CallRecord(measured={"profile": []})
        return CallResult(outputs, [self.hold(output) for output in outputs], record)

    def measure(self) -> CallRecord:
        """Return the record of one timed call; the first few of a round are warm-ups."""
        time = WARM_UP_MILLISECONDS
        if self.calls_of_round >= LATER_WARM_UPS:
            time = self.script.candidate(self.counted)
            self.counted += 1
        self.calls_of_round += 1
        return CallRecord(
            kernels={"digest": {"launches": self.script.launches}},
            measured={"milliseconds": time, "released_early": self.script.released_early},
            outside_milliseconds=self.script.outside_factor * time + EXCHANGE_MILLISECONDS,
            whole_milliseconds=self.script.outside_factor * time + 3 * EXCHANGE_MILLISECONDS,
        )

    def time_nothing(self, mode: Mode) -> CallRecord:
        return CallRecord(outside_milliseconds=EXCHANGE_MILLISECONDS)

    def call_queued(self, instance: int, inputs: list[DeviceInput], count: int) -> CallRecord:
        """End the candidate's turn in a round."""
        self.script.queues.append(count)
        self.script.order.append("candidate")
        self.calls_of_round = 0
        time = count * self.script.candidate(self.counted)
        return CallRecord(
            measured={"milliseconds": time, "released_early": self.script.released_early},
            outside_milliseconds=self.script.queued_factor * time + EXCHANGE_MILLISECONDS,
        )


@pytest.fixture(autouse=True)
def quick_readings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read the GPU often: rounds take milliseconds here."""
    monkeypatch.setattr(clocks, "SAMPLE_SECONDS", 0.001)


def make_trial(script: Script, target: float | None = None) -> Trial:
    """Return a trial of sparsemax on small dims that has come as far as the timing."""
    task = load_task("l1-09")
    environment = load_environment("h200").model_copy(update={"dims": "small"})
    modules, gpu = load_task_modules(task), StandInGpu()
    session = cast(Session, StandInSession(script, modules, task.specification.dims.small))
    reference = cast(Reference, StandInReference(script, gpu))
    freshness = Freshness(session, environment.device.memory_bytes)
    trial = Trial(task, "", environment, modules, session, reference, LoadedCode(session), freshness)
    trial.gpu, trial.target, trial.rounds = cast(Gpu, gpu), target, ROUNDS
    trial.nominal = trial.place(task.specification.distributions[0].name)
    return trial


def judge(script: Script, target: float | None = None) -> tuple[Trial, dict[str, Check]]:
    """Run the gate and return the trial and the checks by name."""
    trial = make_trial(script, target)
    return trial, {item.name: item for item in PerformanceGate().run(trial)}


def list_codes(checks: dict[str, Check]) -> list[FailureCode]:
    return [item.code for item in checks.values() if item.code is not None]


def test_a_fast_and_right_submission_passes_every_check() -> None:
    trial, checks = judge(Script(), target=1.5)
    assert all(item.passed for item in checks.values())
    timing = trial.timing
    assert timing is not None
    assert (timing.baseline, timing.speedup, timing.sessions, timing.rounds) == ("eager", 2.0, 1, ROUNDS)
    assert timing.speedup_interval == (2.0, 2.0)
    assert (timing.gpu.sm_clock, timing.gpu.disturbances) == ((1980, 1980, 1980), [])
    assert (timing.settings, timing.profiled) == (PINNED, {"eager": 2.0, "compiled": 3.0})


def test_the_faster_of_the_two_baselines_counts() -> None:
    trial, _ = judge(Script(eager=steady(4.0), compiled=steady(2.5)))
    assert trial.timing is not None
    assert (trial.timing.baseline, trial.timing.speedup) == ("compiled", 2.5)


def test_every_round_times_all_three_sides_in_a_secret_order() -> None:
    script = Script()
    trial = make_trial(script)
    trial.rounds = 12
    PerformanceGate().run(trial)
    rounds = [script.order[start : start + 3] for start in range(0, 36, 3)]
    assert all(sorted(sides) == sorted(SIDES) for sides in rounds)
    # Twelve equal orders of six possible ones come once in 360 million runs.
    assert len({tuple(sides) for sides in rounds}) > 1
    assert len(set(script.seeds)) == len(script.seeds)


def test_warm_ups_do_not_count_and_every_call_is_cold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(performance, "draw", lambda probability: False)
    script = Script()
    trial, _ = judge(script)
    assert trial.timing is not None
    assert [len(trial.timing.sides[side].samples) for side in SIDES] == [ROUNDS * CALLS_A_ROUND] * 3
    # The first round warms up longer, and the stand-in knows the shorter warm-up only.
    assert len(script.seeds) == 2 * (WARM_UPS + (ROUNDS - 1) * LATER_WARM_UPS + ROUNDS * CALLS_A_ROUND)
    assert max(trial.timing.sides["candidate"].samples) == 1.0
    assert script.modes.count("cold") == len(script.seeds) // 2
    assert script.cold == {True}


def test_a_secret_part_of_the_timed_results_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []

    def draw(probability: float) -> bool:
        asked.append(probability)
        return len(asked) % 10 == 0

    monkeypatch.setattr(performance, "draw", draw)
    _, checks = judge(Script())
    assert set(asked) == {VERIFIED_A_ROUND / CALLS_A_ROUND, HIDDEN_A_ROUND / CALLS_A_ROUND}
    assert checks["timed_outputs"].detail.startswith(f"{len(asked) // 10} were compared")


def test_every_timed_result_is_compared_where_that_is_quick() -> None:
    script = Script()
    trial = make_trial(script)
    trial.judging_seconds = 0.0
    checks = {item.name: item for item in PerformanceGate().run(trial)}
    assert checks["timed_outputs"].detail.startswith(f"{script.modes.count('cold')} were compared")


def test_a_disturbed_round_is_measured_again() -> None:
    script = Script(disturbed=lambda number: number == 1)
    trial, _ = judge(script)
    assert trial.timing is not None
    assert script.order.count("candidate") == ROUNDS + 1
    assert (trial.timing.rounds, len(trial.timing.sides["eager"].samples)) == (ROUNDS, ROUNDS * CALLS_A_ROUND)
    assert trial.timing.gpu.disturbances == ["the GPU was slowed down: software thermal"]


def test_what_was_measured_while_disturbed_does_not_count() -> None:
    script = Script(eager=lambda number: 90.0 if number < CALLS_A_ROUND else 2.0, disturbed=lambda number: number == 0)
    trial, _ = judge(script)
    assert trial.timing is not None
    assert set(trial.timing.sides["eager"].samples) == {2.0}


def test_too_many_disturbed_rounds_are_a_fault_of_ours() -> None:
    script = Script(disturbed=lambda number: True)
    with pytest.raises(InfrastructureFault, match="slowed down") as caught:
        judge(script)
    assert caught.value.code is FailureCode.INFRA_UNSTABLE_TIMING
    assert script.order.count("candidate") == REPEATED_ROUNDS + 1


def test_an_unsteady_baseline_is_measured_twice_and_then_given_up() -> None:
    script = Script(eager=unsteady(2.0, 0.1))
    with pytest.raises(InfrastructureFault, match=r"baseline varied by 10\.\d%, more than 5%") as caught:
        judge(script)
    assert caught.value.code is FailureCode.INFRA_UNSTABLE_TIMING
    assert script.order.count("candidate") == 2 * ROUNDS


def test_a_second_session_may_steady_the_baseline() -> None:
    trial, checks = judge(Script(eager=unsteady(2.0, 0.06, until=ROUNDS * CALLS_A_ROUND)), target=1.5)
    assert trial.timing is not None
    assert (trial.timing.sessions, list_codes(checks)) == (2, [])
    assert trial.timing.sides["eager"].variation == pytest.approx(0.06 / 2**0.5, rel=0.02)


def test_the_slower_baseline_may_be_unsteady() -> None:
    trial, _ = judge(Script(compiled=unsteady(3.0, 0.2)))
    assert trial.timing is not None
    assert trial.timing.sessions == 1


@pytest.mark.parametrize(("target", "sessions"), [(1.5, 1), (1.95, 1), (1.97, 2), (2.0, 2), (2.03, 2), (2.1, 1)])
def test_only_near_the_target_a_second_session_is_measured(target: float, sessions: int) -> None:
    trial, _ = judge(Script(), target)
    assert trial.timing is not None
    assert (trial.timing.sessions, trial.timing.rounds) == (sessions, sessions * ROUNDS)


def test_near_the_target_the_pooled_mean_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(performance, "draw", lambda probability: False)

    def slower_later(number: int) -> float:
        first_session = ROUNDS * CALLS_A_ROUND + (WARM_UPS - LATER_WARM_UPS)
        return 1.0 if number < first_session else 1.03

    trial, checks = judge(Script(candidate=slower_later), target=1.99)
    assert trial.timing is not None
    assert trial.timing.speedup == pytest.approx(2.0 / 1.015)
    assert list_codes(checks) == [FailureCode.PERF_BELOW_TARGET]


@pytest.mark.parametrize(
    ("milliseconds", "target", "codes"),
    [
        (1.0, None, []),
        (1.0, 1.5, []),
        (1.6, 1.5, ["PERF_BELOW_TARGET"]),
        (2.5, 1.5, ["PERF_SLOWER_THAN_BASELINE", "PERF_BELOW_TARGET"]),
        (2.5, None, ["PERF_SLOWER_THAN_BASELINE"]),
        (2.0, None, ["PERF_SLOWER_THAN_BASELINE"]),
    ],
)
def test_speed_is_judged_against_the_baseline_and_the_target(
    milliseconds: float, target: float | None, codes: list[str]
) -> None:
    _, checks = judge(Script(candidate=steady(milliseconds)), target)
    assert list_codes(checks) == codes
    assert (checks["target"].passed is None) is (target is None)


@pytest.mark.parametrize(("share", "codes"), [(1.01, []), (0.98, []), (0.96, ["PERF_BELOW_FLOOR"])])
def test_nothing_is_faster_than_the_hardware(share: float, codes: list[str]) -> None:
    trial = make_trial(Script())
    floor = compute_floor(trial.task.specification, trial.environment.device, trial.dims)
    assert floor is not None
    _, checks = judge(Script(candidate=steady(share * floor.milliseconds)))
    assert list_codes(checks) == codes


def test_profiled_calls_stand_at_secret_places_among_the_timed_ones() -> None:
    places = set()
    for _ in range(6):
        script = Script()
        trial, _ = judge(script)
        timed = trial.task.specification.distributions[0].name
        found = [record.measured["distribution"] for record in trial.profiled]
        assert len(found) == ROUNDS * PROFILED_A_ROUND
        assert found.count(timed) == ROUNDS
        places |= {number for number, mode in enumerate(script.modes) if mode == "profiled"}
    assert len(places) > 3 * ROUNDS * PROFILED_A_ROUND


@pytest.mark.parametrize("factor", [0.9, 1.12, 5.0])
def test_clocks_that_disagree_are_a_sidestep(factor: float) -> None:
    _, checks = judge(Script(queued_factor=factor))
    assert list_codes(checks) == [FailureCode.TIMING_SIDESTEP]
    assert checks["clocks"].passed is False


@pytest.mark.parametrize("factor", [0.97, 1.03])
def test_clocks_may_differ_a_little(factor: float) -> None:
    _, checks = judge(Script(queued_factor=factor))
    assert checks["clocks"].passed


def test_a_device_that_says_more_than_the_judge_waited_is_a_sidestep() -> None:
    _, checks = judge(Script(candidate=steady(10.0), eager=steady(20.0), compiled=steady(20.0), outside_factor=0.5))
    assert list_codes(checks) == [FailureCode.TIMING_SIDESTEP]
    assert checks["clock_bound"].passed is False


@pytest.mark.parametrize(("seconds", "codes"), [(0.0, []), (0.01, []), (1.0, [FailureCode.TIMING_SIDESTEP])])
def test_a_submission_rests_while_the_baseline_is_timed(seconds: float, codes: list[FailureCode]) -> None:
    _, checks = judge(Script(meanwhile_seconds=seconds))
    assert list_codes(checks) == codes
    assert checks["idle_between_calls"].observed == pytest.approx(2 * ROUNDS * seconds)


def test_a_call_that_waits_for_its_result_is_bounded_by_the_whole_call() -> None:
    trial, checks = judge(Script(released_early=True))
    assert trial.timing is not None
    assert trial.timing.sides["candidate"].released_early == ROUNDS * CALLS_A_ROUND
    assert set(trial.timing.clocks.call_samples) == {1.0 + 3 * EXCHANGE_MILLISECONDS}
    assert trial.timing.clocks.inside == 0.0
    assert list_codes(checks) == []


@pytest.mark.parametrize(("launches", "count"), [(1, 40), (100, MOST_QUEUED_LAUNCHES // 100), (5000, 1)])
def test_the_queue_holds_what_the_driver_takes(launches: int, count: int) -> None:
    script = Script(launches=launches)
    trial, _ = judge(script)
    assert trial.timing is not None
    assert script.queues == [count] * ROUNDS
    assert (trial.timing.clocks.windows, trial.timing.clocks.calls) == (ROUNDS, ROUNDS * count)


def test_the_queue_is_as_long_as_the_shortest_call_needs() -> None:
    script = Script(candidate=unsteady(1.0, 0.2))
    judge(script)
    assert script.queues == [50] * ROUNDS


def test_a_call_whose_work_is_queued_is_bounded_by_its_end() -> None:
    trial, _ = judge(Script())
    assert trial.timing is not None
    assert set(trial.timing.clocks.call_samples) == {1.0 + EXCHANGE_MILLISECONDS}


def test_a_wrong_timed_result_has_its_own_code() -> None:
    _, checks = judge(Script(wrong=lambda mode: mode == "cold"))
    assert list_codes(checks) == [FailureCode.STALE_TIMED_OUTPUT]
    assert checks["timed_outputs"].detail.startswith(f"{checks['timed_outputs'].observed} were compared")


def test_changed_settings_of_the_reference_are_a_fault_of_ours() -> None:
    with pytest.raises(InfrastructureFault, match="settings changed") as caught:
        judge(Script(settings={**PINNED, "matmul_tf32": True}))
    assert caught.value.code.is_infrastructure


def test_timed_inputs_and_results_do_not_stay_on_the_device() -> None:
    trial, _ = judge(Script())
    session = cast(StandInSession, cast(object, trial.session))
    assert trial.nominal is not None
    kept = {item.handle for item in trial.nominal.placed} | {
        place["handle"] for held in trial.freshness.kept for place in held.places
    }
    assert set(session.held) == kept
