"""Gate 4: faster than the faster baseline, at the target, above the floor, by two clocks that agree."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any, Literal, NamedTuple, get_args

from verifier.evidence.clocks import Gpu, Readings, Watch
from verifier.faults import InfrastructureFault
from verifier.floor import FloorTime, compute_floor
from verifier.limits import (
    CALLS_A_ROUND,
    EMPTY_CALLS,
    FREE_CPU_SECONDS,
    FREE_CPU_SHARE,
    HIDDEN_A_ROUND,
    LATER_WARM_UPS,
    PINNED,
    PROFILED_A_ROUND,
    QUICK_SECONDS,
    REPEATED_ROUNDS,
    VERIFIED_A_ROUND,
    WARM_UPS,
)
from verifier.session import CallRecord, Mode
from verifier.timing import (
    MAXIMUM_VARIATION,
    Agreement,
    choose_queue,
    compare_clocks,
    find_speedup_interval,
    is_near,
    summarise,
)
from verifier.trial import Trial, check
from verifier.verdict import (
    Check,
    ClockRecord,
    FailureCode,
    Gate,
    GpuRecord,
    SideRecord,
    TimingRecord,
)

Side = Literal["eager", "compiled", "candidate"]
SIDES: tuple[Side, ...] = get_args(Side)
Baseline = Literal["eager", "compiled"]
BASELINES: tuple[Baseline, ...] = get_args(Baseline)

# Enough to tell two GPUs of a host apart, and no more than that.
SHOWN_UUID = len("GPU-01234567")


class Window(NamedTuple):
    """Many calls queued behind one hold: milliseconds by the device's clock and by the judge's."""

    calls: int
    inside: float
    outside: float


@dataclass
class Measurement:
    """Everything that was timed so far."""

    samples: dict[Side, list[float]] = field(default_factory=lambda: {side: [] for side in SIDES})
    early: dict[Side, int] = field(default_factory=lambda: dict.fromkeys(SIDES, 0))
    outside: list[float] = field(default_factory=list)
    queued: list[Window] = field(default_factory=list)
    empty: list[float] = field(default_factory=list)
    readings: Readings = field(default_factory=Readings)
    disturbances: list[str] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    meanwhile_seconds: float = 0.0
    reference_seconds: float = 0.0
    verified: int = 0
    wrong: int = 0
    rounds: int = 0
    sessions: int = 0

    @property
    def baseline(self) -> Baseline:
        """The faster of the two baselines."""
        means = {side: summarise(self.samples[side]).mean for side in ("eager", "compiled")}
        return "eager" if means["eager"] <= means["compiled"] else "compiled"

    @property
    def speedup(self) -> float:
        """Mean of the faster baseline over mean of the submission."""
        return summarise(self.samples[self.baseline]).mean / summarise(self.samples["candidate"]).mean

    def add(self, other: Measurement) -> None:
        """Join a round's measurement."""
        for side in SIDES:
            self.samples[side] += other.samples[side]
            self.early[side] += other.early[side]
        self.outside += other.outside
        self.queued += other.queued
        self.empty += other.empty
        self.rounds += 1


class PerformanceGate:
    gate = Gate.PERFORMANCE

    def __init__(self) -> None:
        self.measurement = Measurement()
        self.gpu: Gpu | None = None
        self.quick = False

    def run(self, trial: Trial) -> list[Check]:
        """Time all three sides in alternating rounds, and judge. Raises InfrastructureFault when timing is not steady."""
        self.gpu = trial.gpu or Gpu()
        measurement = self.measurement
        self.quick = trial.judging_seconds < QUICK_SECONDS
        self.run_session(trial)
        if summarise(measurement.samples[measurement.baseline]).variation > MAXIMUM_VARIATION:
            self.run_session(trial)
        target = trial.target
        if target is not None and is_near(measurement.speedup, target):
            # By a fixed rule: one more session, and the pooled mean decides.
            self.run_session(trial)
        steady = summarise(measurement.samples[measurement.baseline]).variation
        if steady > MAXIMUM_VARIATION:
            raise InfrastructureFault(
                f"the baseline varied by {steady:.1%}, more than {MAXIMUM_VARIATION:.0%}",
                FailureCode.INFRA_UNSTABLE_TIMING,
            )
        return self.judge(trial, target)

    def run_session(self, trial: Trial) -> None:
        """Measure all rounds; a round in which the GPU was disturbed is measured again, a few times."""
        assert self.gpu is not None
        done = repeated = 0
        first = self.measurement.sessions == 0
        while done < trial.rounds:
            with Watch(self.gpu) as watch:
                measured = self.run_round(trial, warm_ups=WARM_UPS if first and not done else LATER_WARM_UPS)
            self.measurement.readings.add(watch.readings)
            planned = trial.rounds * (self.measurement.sessions + 1)
            trial.report({"event": "timing", "round": self.measurement.rounds + 1, "of": planned})
            if not watch.readings.disturbed:
                self.measurement.add(measured)
                done += 1
                continue
            repeated += 1
            self.measurement.disturbances.append(watch.readings.disturbed)
            if repeated > REPEATED_ROUNDS:
                raise InfrastructureFault(watch.readings.disturbed, FailureCode.INFRA_UNSTABLE_TIMING)
        self.measurement.sessions += 1

    def run_round(self, trial: Trial, warm_ups: int) -> Measurement:
        """Time one round of each side, in random order."""
        measured = Measurement()
        for side in secrets.SystemRandom().sample(SIDES, len(SIDES)):
            if side == "candidate":
                self.time_candidate(trial, measured, warm_ups)
            else:
                self.time_reference(trial, measured, side, warm_ups)
        return measured

    def time_reference(self, trial: Trial, measured: Measurement, side: Side, warm_ups: int) -> None:
        """Time one round of a baseline, and read back what was pinned."""
        distribution = trial.task.specification.distributions[0].name
        seeds = [secrets.randbits(62) for _ in range(warm_ups + CALLS_A_ROUND)]
        process, started = trial.session.candidate_process, time.monotonic()
        used = process.measure_cpu()
        answer = trial.reference.time(side, distribution, seeds, cold=trial.task.specification.timing_mode == "cold")
        self.measurement.meanwhile_seconds += max(0.0, process.measure_cpu() - used)
        self.measurement.reference_seconds += time.monotonic() - started
        if answer["settings"] != PINNED:
            raise InfrastructureFault(f"the reference's settings changed: {answer['settings']}")
        self.measurement.settings = answer["settings"]
        measured.samples[side] = answer["milliseconds"][warm_ups:]
        measured.early[side] = answer["released_early"]

    def time_candidate(self, trial: Trial, measured: Measurement, warm_ups: int) -> None:
        """Time one round of the submission on fresh inputs; a secret part of its results is compared with the oracle."""
        mode = trial.task.specification.timing_mode
        distribution = trial.task.specification.distributions[0].name
        profiled = secrets.SystemRandom().sample(range(CALLS_A_ROUND), PROFILED_A_ROUND)
        for number in range(-warm_ups, CALLS_A_ROUND):
            if number in profiled:
                # The first of them, in the order of the draw, is one of the timed distribution.
                self.profile(trial, distribution if number == profiled[0] else trial.pick_hidden())
            # Each call is drawn by itself: what was compared so far tells nothing of what will be.
            if number >= 0 and draw(HIDDEN_A_ROUND / CALLS_A_ROUND):
                # Not counted: the time of another distribution is another time.
                self.verify_timed(trial, trial.pick_hidden(), mode, compare=True)
            compare = self.quick or draw(VERIFIED_A_ROUND / CALLS_A_ROUND)
            record = self.verify_timed(trial, distribution, mode, compare=compare)
            if number >= 0:
                keep_call(measured, record)
        self.compare_clocks(trial, measured)

    @staticmethod
    def profile(trial: Trial, distribution: str) -> None:
        """Keep the record of one call that the profiler watches, for the gate of structure."""
        record, _ = trial.call_measured(distribution, "profiled", verify=False)
        trial.profiled.append(replace(record, measured={**record.measured, "distribution": distribution}))

    def verify_timed(self, trial: Trial, distribution: str, mode: Mode, *, compare: bool) -> CallRecord:
        """Run one call under the stopwatch, and compare its result when asked."""
        record, sound = trial.call_measured(distribution, mode, verify=compare)
        if sound is not None:
            self.measurement.verified += 1
            self.measurement.wrong += not sound
        return record

    @staticmethod
    def compare_clocks(trial: Trial, measured: Measurement) -> None:
        """Time many queued calls by both clocks: one window is long against an exchange of messages."""
        session = trial.session
        launches = [
            sum(usage["launches"] for usage in record.kernels.values()) for record in trial.records[-CALLS_A_ROUND:]
        ]
        others = [sum(record.library_calls.values()) for record in trial.records[-CALLS_A_ROUND:]]
        count = choose_queue(min(measured.samples["candidate"]), max(launches) + max(others))
        measured.empty = [session.time_nothing("queued").outside_milliseconds for _ in range(EMPTY_CALLS)]
        # New inputs, as in every other call: those of an earlier one would tell that the round is over.
        placed = session.put(trial.draw(trial.task.specification.distributions[0].name))
        record = session.call_queued(0, placed, count)
        session.drop([item.handle for item in placed])
        trial.queued.append(record)
        if not record.measured["released_early"]:
            measured.queued.append(Window(count, record.measured["milliseconds"], record.outside_milliseconds))

    def judge(self, trial: Trial, target: float | None) -> list[Check]:
        """Make the checks and keep the evidence."""
        measurement = self.measurement
        windows = measurement.queued
        clocks = compare_clocks(
            [item.inside for item in windows], [item.outside for item in windows], measurement.empty
        )
        floor = compute_floor(trial.task.specification, trial.environment.device, trial.dims)
        trial.timing = self.record(trial, clocks, floor)
        return [
            *self.check_speed(trial.timing, target),
            self.check_floor(trial.timing, floor),
            self.check_clocks(clocks, queueable=measurement.early["candidate"] < len(measurement.outside)),
            self.check_bound(),
            self.check_meanwhile(),
            self.check_outputs(trial),
        ]

    def record(self, trial: Trial, clocks: Agreement, floor: FloorTime | None) -> TimingRecord:
        """Return the evidence."""
        assert self.gpu is not None
        measurement, readings = self.measurement, self.measurement.readings
        sides: dict[Side, SideRecord] = {
            side: SideRecord(
                samples=[round(value, 6) for value in measurement.samples[side]],
                released_early=measurement.early[side],
                **summarise(measurement.samples[side])._asdict(),
            )
            for side in SIDES
        }
        return TimingRecord(
            mode=trial.task.specification.timing_mode,
            rounds=measurement.rounds,
            sessions=measurement.sessions,
            flush_bytes=trial.session.described["flush_bytes"],
            warm_ups=WARM_UPS,
            sides=sides,
            profiled={
                side: trial.reference.profile(side, trial.task.specification.distributions[0].name)
                for side in BASELINES
            },
            baseline=measurement.baseline,
            speedup=measurement.speedup,
            speedup_interval=find_speedup_interval(
                measurement.samples[measurement.baseline], measurement.samples["candidate"]
            ),
            floor_milliseconds=floor.milliseconds if floor else None,
            clocks=ClockRecord(
                windows=len(measurement.queued),
                calls=sum(item.calls for item in measurement.queued),
                inside=clocks.inside,
                outside=clocks.outside,
                allowed_difference=clocks.allowed_difference,
                empty_windows=[round(value, 4) for value in measurement.empty],
                call_samples=[round(value, 4) for value in measurement.outside],
            ),
            gpu=GpuRecord(
                name=self.gpu.name,
                uuid=self.gpu.uuid[:SHOWN_UUID],
                driver=self.gpu.driver,
                sm_clock=find_range(readings.sm_clocks),
                memory_clock=find_range(readings.memory_clocks),
                temperature=(min(readings.temperatures, default=0), max(readings.temperatures, default=0)),
                watts=(min(readings.watts, default=0.0), max(readings.watts, default=0.0)),
                disturbances=measurement.disturbances,
            ),
            settings=measurement.settings,
        )

    @staticmethod
    def check_speed(timing: TimingRecord, target: float | None) -> list[Check]:
        low, high = timing.speedup_interval
        detail = f"95 % interval {low:.3f} to {high:.3f}, against {timing.baseline} PyTorch"
        return [
            check(
                "faster_than_baseline",
                "faster than the faster of eager and compiled PyTorch",
                passed=timing.speedup > 1.0,
                code=FailureCode.PERF_SLOWER_THAN_BASELINE,
                observed=round(timing.speedup, 4),
                allowed="more than 1",
                unit="times as fast",
                detail=detail,
            ),
            check(
                "target",
                "at or above the certified target",
                passed=None if target is None else timing.speedup >= target,
                code=FailureCode.PERF_BELOW_TARGET,
                observed=round(timing.speedup, 4),
                allowed=target,
                bound="at least",
                unit="times as fast",
                detail="no target has been certified in this environment" if target is None else "",
            ),
        ]

    @staticmethod
    def check_floor(timing: TimingRecord, floor: FloorTime | None) -> Check:
        mean = timing.sides["candidate"].mean
        return check(
            "floor",
            "not faster than the hardware can move the bytes or do the arithmetic",
            passed=None if floor is None else mean >= floor.rejects_below,
            code=FailureCode.PERF_BELOW_FLOOR,
            observed=round(mean, 6),
            allowed=None if floor is None else round(floor.rejects_below, 6),
            bound="at least",
            unit="ms",
            detail="" if floor is None else f"bound by {floor.bound}",
        )

    @staticmethod
    def check_clocks(clocks: Agreement, *, queueable: bool) -> Check:
        return check(
            "clocks",
            "the device's clock and the judge's own agree",
            # Calls that always read a result back cannot be queued; the judge's clock bounds them all the same.
            passed=clocks.agrees and clocks.inside > 0 if queueable or clocks.inside else None,
            code=FailureCode.TIMING_SIDESTEP,
            observed=round(abs(clocks.outside - clocks.inside), 4),
            allowed=round(clocks.allowed_difference, 4),
            bound="at most",
            unit="ms",
            detail=f"queued calls: device {clocks.inside:.3f} ms, judge {clocks.outside:.3f} ms"
            if clocks.inside
            else "not measured: every call waits for a result",
        )

    def check_bound(self) -> Check:
        """No timed call may have taken longer than the judge waited for it."""
        inside, outside = sum(self.measurement.samples["candidate"]), sum(self.measurement.outside)
        return check(
            "clock_bound",
            "no more time by the device's clock than the judge waited",
            passed=inside <= outside,
            code=FailureCode.TIMING_SIDESTEP,
            observed=round(inside, 4),
            allowed=round(outside, 4),
            bound="at most",
            unit="ms over all timed calls",
        )

    def check_meanwhile(self) -> Check:
        """While the baseline is timed the submission waits: whoever works then slows the baseline down."""
        measurement = self.measurement
        allowed = FREE_CPU_SECONDS + FREE_CPU_SHARE * measurement.reference_seconds
        return check(
            "idle_between_calls",
            "the submission's process rests while the baseline is timed",
            passed=measurement.meanwhile_seconds <= allowed,
            code=FailureCode.TIMING_SIDESTEP,
            observed=round(measurement.meanwhile_seconds, 3),
            allowed=round(allowed, 3),
            bound="at most",
            unit="seconds of processor time",
        )

    def check_outputs(self, trial: Trial) -> Check:
        # What was wrong before has its own code.
        sound = all(item.passed for item in trial.distributions)
        return check(
            "timed_outputs",
            "results of timed calls are right",
            passed=not (sound and self.measurement.wrong),
            code=FailureCode.STALE_TIMED_OUTPUT,
            observed=self.measurement.wrong,
            allowed=0,
            unit="wrong results",
            detail=f"{self.measurement.verified} were compared, some of them of hidden distributions",
        )


def draw(probability: float) -> bool:
    """Return true with a probability that nobody can foresee."""
    return secrets.SystemRandom().random() < probability


def keep_call(measured: Measurement, record: CallRecord) -> None:
    """Add one timed call of the submission."""
    early = record.measured["released_early"]
    measured.samples["candidate"].append(record.measured["milliseconds"])
    measured.early["candidate"] += early
    # Work that ran ahead is bounded by the whole call.
    measured.outside.append(record.whole_milliseconds if early else record.outside_milliseconds)


def find_range(values: Sequence[int]) -> tuple[int, int, int]:
    """Return the lowest, the median and the highest, or zeros."""
    return (min(values), int(median(values)), max(values)) if values else (0, 0, 0)
