"""The certified suite in one environment: a row a task, and medians a level beside those that were announced."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from verifier.certificate import Session, list_changed, load_certificate
from verifier.environment import EnvironmentSpecification
from verifier.floor import compute_floor
from verifier.task import Task

# Median targets by level, as the benchmark's announcement states them for its own GPU.
ANNOUNCED_MEDIAN_TARGETS = {"L1": 4.14, "L2": 2.26, "L3": 1.40, "L4": 1.47}
NOT_MEASURED = "not measured"


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, serialize_by_alias=True)


class SuiteRow(Model):
    """One task; figures are medians over the sessions of its certification, times in milliseconds."""

    task: str
    slug: str
    level: str
    family: str
    certified: bool
    reason: str = Field("", description="why it is not certified")
    changed: list[str] = Field([], description="files that are no longer those that were certified")
    sessions: int = 0
    eager_ms: float | None = None
    compiled_ms: float | None = None
    certified_ms: float | None = None
    target: float | None = None
    margin: float | None = None
    floor_ms: float | None = Field(None, description="None where the task has no floor")
    floor_share: float | None = Field(None, description="floor over certified time: 1 is all that the hardware can do")
    own_share: float | None = Field(None, description="own kernels' share of the GPU time of all work")


class LevelSummary(Model):
    level: str
    tasks: int
    certified: int
    median_target: float | None
    announced_median_target: float


class SuiteReport(Model):
    """The answer of `kq suite report`."""

    schema_id: Literal["kernelquest.suite/1"] = Field("kernelquest.suite/1", alias="schema")
    environment: str
    tasks: list[SuiteRow]
    levels: list[LevelSummary]


def take_median(sessions: Sequence[Session], read: Callable[[Session], float | None]) -> float | None:
    """Return the median of a figure over the sessions that have it."""
    values = [value for session in sessions if (value := read(session)) is not None]
    return statistics.median(values) if values else None


def describe_task(task: Task, environment: EnvironmentSpecification) -> SuiteRow:
    """Return the row of one task. Raises TaskError for a malformed certificate."""
    specification = task.specification
    figures = load_certificate(task, environment.slug)
    found = compute_floor(specification, environment.device, specification.dims.timed)
    floor = found.milliseconds if found else None
    base = {
        "task": task.id,
        "slug": specification.slug,
        "level": specification.level,
        "family": specification.family,
        "floor_ms": floor,
    }
    if figures is None:
        return SuiteRow(**base, certified=False, reason=NOT_MEASURED)
    sessions = figures.sessions
    certified_ms = take_median(sessions, lambda session: session.certified_ms)
    return SuiteRow(
        **base,
        certified=figures.certified,
        reason=figures.reason,
        changed=list_changed(task, figures),
        sessions=len(sessions),
        eager_ms=take_median(sessions, lambda session: session.eager_ms),
        compiled_ms=take_median(sessions, lambda session: session.compiled_ms),
        certified_ms=certified_ms,
        target=figures.target,
        margin=figures.margin,
        floor_share=floor / certified_ms if floor and certified_ms else None,
        own_share=take_median(sessions, lambda session: session.own_share),
    )


def summarise_level(level: str, rows: Sequence[SuiteRow]) -> LevelSummary:
    """Return how much of a level is certified, with the median target of what is."""
    own = [row for row in rows if row.level == level]
    certified = [row for row in own if row.certified]
    targets = [row.target for row in certified if row.target is not None]
    return LevelSummary(
        level=level,
        tasks=len(own),
        certified=len(certified),
        median_target=statistics.median(targets) if targets else None,
        announced_median_target=ANNOUNCED_MEDIAN_TARGETS[level],
    )


def report_suite(tasks: Sequence[Task], environment: EnvironmentSpecification) -> SuiteReport:
    """Return the report over tasks in an environment. Raises TaskError for a malformed certificate."""
    rows = [describe_task(task, environment) for task in tasks]
    levels = [summarise_level(level, rows) for level in ANNOUNCED_MEDIAN_TARGETS]
    return SuiteReport(environment=environment.slug, tasks=rows, levels=levels)
