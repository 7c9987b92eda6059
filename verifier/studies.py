"""Measurements of the verifier itself: how repeatable a verdict is, and what of a time is not the GPU's work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from verifier.environment import EnvironmentSpecification
from verifier.judge import Plan, Submission, ignore, list_versions, verify, verify_each
from verifier.limits import choose_limits
from verifier.task import Task
from verifier.timing import summarise
from verifier.verdict import Gate, Outcome, Verdict
from verifier.worker import Workers

# Judgements of speed, which the interval makes.
SPEED = ("faster_than_baseline", "target", "floor")


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, serialize_by_alias=True)


class Repeat(Model):
    """One of several verifications of the same file."""

    outcome: Outcome
    speedup: float | None
    baseline_milliseconds: float | None
    candidate_milliseconds: float | None
    seconds: float
    phases: dict[str, float]
    samples: list[float] = Field(description="milliseconds of the timed calls of the submission")


class BenchRow(Model):
    """How fast one file is; times are means in milliseconds."""

    file: str
    speedup: float | None = Field(description="over the faster of eager and compiled PyTorch")
    interval: tuple[float, float] | None = Field(description="95 % interval of the speedup")
    candidate_ms: float | None
    eager_ms: float | None
    compiled_ms: float | None
    compared: int = Field(0, description="results of timed calls that were compared with the oracle")
    error: str = Field("", description="what failed")

    @property
    def judgement(self) -> str:
        """Whether the file is faster than the baseline, slower, or cannot be told from it."""
        if self.interval is None:
            return "failed"
        low, high = self.interval
        return "faster" if low > 1 else "slower" if high < 1 else "indistinguishable"


class BenchReport(Model):
    """Files timed one after another in one session, without the other gates: no verdict follows."""

    schema_id: str = Field("kernelquest.bench/1", alias="schema")
    task: str
    environment: str
    versions: dict[str, str]
    rows: list[BenchRow]


class RepeatStudy(Model):
    """The same file, verified several times."""

    schema_id: str = Field("kernelquest.study.repeat/1", alias="schema")
    task: str
    environment: str
    versions: dict[str, str]
    repeats: list[Repeat]
    speedup_variation: float | None = Field(description="standard deviation of the speedups over their mean")
    median_seconds: float
    outcomes: list[Outcome] = Field(description="the distinct outcomes: more than one means that a verdict flipped")


class SizeRow(Model):
    """One size: milliseconds of a call by the events that count, by the judge's clock, and by the profiler."""

    dims: dict[str, int]
    candidate_events: float
    candidate_outside: float
    candidate_profiler: float
    eager_events: float
    eager_profiler: float
    compiled_events: float
    compiled_profiler: float


class OverheadStudy(Model):
    """What the events see beside the GPU's own work, for a submission and for the baselines."""

    schema_id: str = Field("kernelquest.study.overhead/1", alias="schema")
    task: str
    environment: str
    versions: dict[str, str]
    rows: list[SizeRow]


def read_bench(file: Path, verdict: Verdict) -> BenchRow:
    """Return what a bench keeps of a measurement."""
    timing = verdict.evidence.timing
    failing = [
        item for gate in verdict.gates for item in gate.checks if item.passed is False and item.name not in SPEED
    ]
    error = "; ".join(f"{item.label}: {item.observed}" for item in failing) or verdict.evidence.error
    means = {side: round(record.mean, 6) for side, record in timing.sides.items()} if timing else {}
    return BenchRow(
        file=str(file),
        speedup=round(timing.speedup, 4) if timing else None,
        interval=timing.speedup_interval if timing else None,
        candidate_ms=means.get("candidate"),
        eager_ms=means.get("eager"),
        compiled_ms=means.get("compiled"),
        compared=count_compared(verdict),
        error=error[:500],
    )


def count_compared(verdict: Verdict) -> int:
    """Return how many results of timed calls were compared with the oracle."""
    checks = verdict.gate(Gate.PERFORMANCE).checks
    counts = [item.detail.partition(" ")[0] for item in checks if item.name == "timed_outputs"]
    return sum(int(count) for count in counts if count.isdigit())


def bench(task: Task, files: Sequence[Path], environment: EnvironmentSpecification, rounds: int) -> Iterator[BenchRow]:
    """Time each file against the same reference. Raises SandboxUnavailable."""
    with Workers() as workers:
        plan = Plan(
            choose_limits(environment),
            rounds,
            workers=workers,
            use_target=False,
            gates=frozenset({Gate.INTAKE, Gate.PERFORMANCE}),
        )
        for file in files:
            yield read_bench(file, verify(task, file.read_bytes(), environment, plan=plan))


def read_repeat(verdict: Verdict) -> Repeat:
    """Return what a study keeps of a verdict."""
    timing = verdict.evidence.timing
    return Repeat(
        outcome=verdict.outcome,
        speedup=verdict.measured_speedup,
        baseline_milliseconds=timing.sides[timing.baseline].mean if timing else None,
        candidate_milliseconds=timing.sides["candidate"].mean if timing else None,
        seconds=verdict.seconds,
        phases=verdict.evidence.phases,
        samples=timing.sides["candidate"].samples if timing else [],
    )


def repeat(
    task: Task, file: Path, environment: EnvironmentSpecification, times: int, jobs: int = 1
) -> Iterator[Repeat]:
    """Verify a file several times, some at a time, and yield what each found. Timed calls run alone.

    Raises InfrastructureFault.
    """
    for _, verdict in verify_each([Submission(task, file.read_bytes())] * times, environment, ignore, jobs):
        yield read_repeat(verdict)


def summarise_repeats(task: Task, environment: EnvironmentSpecification, repeats: Sequence[Repeat]) -> RepeatStudy:
    """Return the study of some repeats."""
    speedups = [item.speedup for item in repeats if item.speedup is not None]
    return RepeatStudy(
        task=task.id,
        environment=environment.slug,
        versions=list_versions(),
        repeats=list(repeats),
        speedup_variation=summarise(speedups).variation if speedups else None,
        median_seconds=summarise([item.seconds for item in repeats]).median,
        outcomes=sorted({item.outcome for item in repeats}),
    )


def resize(task: Task, dims: dict[str, int]) -> Task:
    """Return a task at other timed dims. Raises ValueError for a name that it does not have."""
    specification = task.specification
    if unknown := dims.keys() - specification.dims.timed.keys():
        raise ValueError(f"{task.id} has no dims {', '.join(sorted(unknown))}")
    timed = {**specification.dims.timed, **dims}
    sized = specification.dims.model_copy(update={"timed": timed})
    return task.model_copy(update={"specification": specification.model_copy(update={"dims": sized})})


def measure_sizes(
    task: Task, file: Path, environment: EnvironmentSpecification, name: str, sizes: Sequence[int]
) -> Iterator[SizeRow]:
    """Verify a file at several sizes of one dim, and yield one row each. Raises ValueError when it is not accepted."""
    for size in sizes:
        sized = resize(task, {name: size})
        verdict = verify(sized, file.read_bytes(), environment)
        timing = verdict.evidence.timing
        if timing is None:
            raise ValueError(f"{name} = {size} was not timed: {verdict.evidence.error}")
        sides = timing.sides
        yield SizeRow(
            dims=sized.specification.dims.timed,
            candidate_events=sides["candidate"].mean,
            candidate_outside=timing.clocks.outside / max(1, timing.clocks.calls),
            candidate_profiler=sum(item.milliseconds for item in verdict.evidence.activities),
            eager_events=sides["eager"].mean,
            eager_profiler=timing.profiled["eager"],
            compiled_events=sides["compiled"].mean,
            compiled_profiler=timing.profiled["compiled"],
        )
