"""The verifier's conscience: submissions whose verdict is known, and a run that shows that they get it.

A folder of fixtures holds ``exploits/`` (each rejected with its code), ``honest/`` (each accepted) and
``fixture_tasks/`` (tasks of the verifier's own). Reading them imports neither torch nor the files.
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import as_completed
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from verifier.environment import EnvironmentSpecification
from verifier.judge import Plan, list_versions, share_gpu, verify
from verifier.limits import TimeLimits
from verifier.task import Task, load_task
from verifier.turns import Turns
from verifier.verdict import FailureCode, FailureMode, Outcome, Verdict
from verifier.worker import Workers

EXPLOITS, HONEST, FIXTURE_TASKS = "exploits", "honest", "fixture_tasks"

_HEADER = re.compile(r"^# (task|expect|why|environments): (.+)$", re.MULTILINE)
_EXPECT_IN = re.compile(r"^# expect in ([a-z0-9-]+): ([\w ]+)$", re.MULTILINE)
_ALSO = re.compile(r"^# also: (\w+)$", re.MULTILINE)

# What hangs is meant to hang: a shorter wait keeps the same verdict.
SHORT_LIMITS = TimeLimits(load=25.0, first_call=45.0, call=30.0)
SHORT_GPU_LIMITS = TimeLimits(load=60.0, first_call=120.0, call=30.0)
# Codes that only a timed run can find.
TIMED_MODES = (FailureMode.TIMING_SIDESTEP, FailureMode.BELOW_FLOOR, FailureMode.BELOW_TARGET)
ACCEPTED = (Outcome.ACCEPTED, Outcome.PASSED, Outcome.BELOW_TARGET)


@dataclass(frozen=True)
class Fixture:
    """One submission and what must become of it; `expected` is empty for an honest one.

    `also` are further codes that it must get. `environments` are those in which it makes sense, all when empty;
    `elsewhere` has what differs in some: the code and those that it must also get there.
    """

    path: Path
    task: str
    expected: str
    also: tuple[str, ...] = ()
    environments: tuple[str, ...] = ()
    elsewhere: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def kind(self) -> Literal["exploit", "honest"]:
        """Which of the two folders it is in."""
        return "exploit" if self.path.parent.name == EXPLOITS else "honest"

    def belongs_to(self, environment: str) -> bool:
        """Return whether it makes sense in an environment."""
        return not self.environments or environment in self.environments

    def expect(self, environment: str) -> str:
        """Return the primary code that it must get in an environment, or an empty text for an honest one."""
        return self.list_codes(environment)[0]

    def list_codes(self, environment: str) -> tuple[str, ...]:
        """Return all codes that it must get in an environment, the primary one first."""
        return dict(self.elsewhere).get(environment, (self.expected, *self.also))

    def is_as_expected(self, verdict: Verdict) -> bool:
        """Return whether a verdict is the right one."""
        expected = self.expect(verdict.environment)
        if not expected:
            return verdict.outcome in ACCEPTED
        right = verdict.outcome in (Outcome.REJECTED, Outcome.BELOW_TARGET) and verdict.failures[0] == expected
        return right and set(self.list_codes(verdict.environment)) <= set(verdict.failures)


def read_fixture(path: Path) -> Fixture:
    """Return the fixture at `path`. Raises ValueError when its header is incomplete."""
    lines = path.read_text(encoding="utf-8").splitlines()
    text = "\n".join(itertools.takewhile(lambda line: line.startswith("#"), lines))
    header = dict(_HEADER.findall(text))
    wanted = {"task", "why"} | ({"expect"} if path.parent.name == EXPLOITS else set())
    if missing := wanted - header.keys():
        raise ValueError(f"{path}: the header lacks {', '.join(sorted(missing))}")
    environments = tuple(header.get("environments", "").split())
    return Fixture(
        path,
        header["task"],
        header.get("expect", ""),
        tuple(_ALSO.findall(text)),
        environments,
        tuple((environment, tuple(codes.split())) for environment, codes in _EXPECT_IN.findall(text)),
    )


def list_fixtures(folder: Path, environment: str = "") -> list[Fixture]:
    """Return every fixture of ``exploits/`` and ``honest/`` by name, exploits first, that makes sense in `environment`.

    Raises ValueError.
    """
    paths = [path for kind in (EXPLOITS, HONEST) for path in sorted((folder / kind).glob("*.py"))]
    fixtures = [read_fixture(path) for path in paths if path.name != "__init__.py"]
    return [fixture for fixture in fixtures if not environment or fixture.belongs_to(environment)]


def choose_part(fixtures: Sequence[Fixture], part: str) -> list[Fixture]:
    """Return every N-th fixture from the K-th on, for the part K/N. Raises ValueError for what is no such part."""
    number, _, count = part.partition("/")
    if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise ValueError(f"{part!r} is no part such as 2/3, the second of three")
    return list(fixtures[int(number) - 1 :: int(count)])


def find_fixture_task(name: str, folder: Path) -> Task:
    """Return the task that a fixture names: one of the benchmark's, else one of ``fixture_tasks/``.

    Raises TaskError for a malformed task, or KeyError when there is none of that name.
    """
    try:
        return load_task(name)
    except KeyError:
        return load_task(name, folder / FIXTURE_TASKS)


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class FixtureResult(Model):
    """What became of one fixture."""

    name: str
    kind: Literal["exploit", "honest"]
    task: str
    expected: str
    as_expected: bool
    outcome: Outcome
    failures: list[FailureCode]
    failing_checks: list[str]
    findings: list[str] = Field([], description="what was observed against what is allowed, in the checks that failed")
    measured_speedup: float | None = None
    seconds: float
    error: str = ""


class Report(Model):
    """One self-test."""

    schema_id: Literal["kernelquest.selftest/1"] = Field("kernelquest.selftest/1", alias="schema")
    environment: str
    versions: dict[str, str]
    results: list[FixtureResult]
    needed_by: dict[str, list[str]] = Field(
        description="for each check the exploits that nothing else rejects: they slip through when it is switched off"
    )

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, serialize_by_alias=True)

    @property
    def ok(self) -> bool:
        """Whether every fixture got the verdict that it must get."""
        return all(result.as_expected for result in self.results)


def make_plan(
    fixture: Fixture,
    environment: EnvironmentSpecification,
    turns: Turns | None = None,
    workers: Workers | None = None,
    sharing: int = 1,
) -> Plan:
    """Return how to verify a fixture: timed only where its verdict can depend on that."""
    expected = fixture.expect(environment.slug)
    timed = not expected or FailureCode(expected).mode in TIMED_MODES or expected == FailureCode.STALE_TIMED_OUTPUT
    limits = SHORT_GPU_LIMITS if environment.timed else SHORT_LIMITS
    return Plan(limits, rounds=1 if timed else 0, turns=turns, sharing=sharing, workers=workers)


def judge_fixture(fixture: Fixture, folder: Path, environment: EnvironmentSpecification, plan: Plan) -> FixtureResult:
    """Verify one fixture and say whether its verdict is the right one."""
    task = find_fixture_task(fixture.task, folder)
    verdict = verify(task, fixture.path.read_bytes(), environment, plan=plan)
    expected = fixture.expect(environment.slug)
    failing = [item for gate in verdict.gates for item in gate.checks if item.passed is False]
    return FixtureResult(
        name=fixture.path.stem,
        kind=fixture.kind,
        task=fixture.task,
        expected=expected,
        as_expected=fixture.is_as_expected(verdict),
        outcome=verdict.outcome,
        failures=verdict.failures,
        failing_checks=[item.name for item in failing],
        findings=[f"{item.label}: {item.observed} ({item.allowed}) {item.detail}"[:300] for item in failing],
        measured_speedup=verdict.measured_speedup,
        seconds=verdict.seconds,
        error=verdict.evidence.error[:500],
    )


def run_selftest(
    fixtures: Sequence[Fixture], folder: Path, environment: EnvironmentSpecification, jobs: int
) -> Iterator[FixtureResult]:
    """Verify fixtures, some at a time, and yield each result. Raises InfrastructureFault when there is no GPU to use.

    Those that are timed come last: they take turns on the GPU, for which all others would have to wait. What went
    wrong beside others is verified again alone, where it has all of the GPU's memory and time, and that counts.
    """
    with Workers() as workers, share_gpu(environment, jobs) as (pool, turns):
        planned = [(item, make_plan(item, environment, turns, workers, jobs)) for item in fixtures]
        planned.sort(key=lambda pair: pair[1].rounds)
        futures = {pool.submit(judge_fixture, item, folder, environment, plan): item for item, plan in planned}
        again = []
        for future in as_completed(futures):
            result = future.result()
            # An exploit that slipped through once has slipped through.
            slipped = result.kind == "exploit" and result.outcome in ACCEPTED
            if result.as_expected or slipped or not turns or jobs == 1:
                yield result
            else:
                again.append(futures[future])
        for item in again:
            yield judge_fixture(item, folder, environment, make_plan(item, environment, turns, workers))


def read_log(path: Path, fixtures: Sequence[Fixture]) -> list[FixtureResult]:
    """Return the results that a log holds of these fixtures, the last of each; a line that was cut off is left out."""
    wanted = {(item.kind, item.path.stem) for item in fixtures}
    found: dict[tuple[str, str], FixtureResult] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        with suppress(ValueError):
            result = FixtureResult.model_validate_json(line)
            found[result.kind, result.name] = result
    return [result for key, result in found.items() if key in wanted]


def summarise(environment: EnvironmentSpecification, results: Sequence[FixtureResult]) -> Report:
    """Return the report, with what each check is needed for."""
    needed: dict[str, list[str]] = defaultdict(list)
    for result in results:
        if result.kind == "exploit" and len(result.failing_checks) == 1:
            needed[result.failing_checks[0]].append(result.name)
    ordered = sorted(results, key=lambda item: (item.kind, item.name))
    return Report(
        environment=environment.slug,
        versions=list_versions(),
        results=ordered,
        needed_by={name: sorted(names) for name, names in sorted(needed.items())},
    )
