"""Invented runs in any number, written past the state machine, to see and to time pages with much on them.

Run as `python -m tests.portal.population RUNS` against the database of the settings. No figure of it means anything.
"""

from __future__ import annotations

import os
import random
import sys
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from tests.portal.factories import build_verdict
from verifier.verdict import Gate, GateResult, GateStatus

if TYPE_CHECKING:
    from portal.accounts.models import User
    from portal.systems.models import System

START = datetime(2026, 1, 5, 9, tzinfo=UTC)
RUNS_A_TASK = 3
BATCH = 2_000
TARGET = 1.6


@dataclass(frozen=True)
class Kind:
    """A way for a run to end, and how likely it is beside the others for a system of middling skill."""

    outcome: str
    code: str
    weight: float
    fastest: float
    failed_gate: Gate | None = None


KINDS = (
    Kind("passed", "", 4, 3.0),
    Kind("below_target", "PERF_BELOW_TARGET", 3, TARGET, Gate.PERFORMANCE),
    Kind("rejected", "PREC_TF32", 2, 5.0, Gate.POLICY),
    Kind("rejected", "STALE_CONSTANT", 1, 20.0, Gate.CORRECTNESS),
    Kind("rejected", "CORR_VALUE", 1, 2.0, Gate.CORRECTNESS),
    Kind("rejected", "STRUCT_LIBRARY_OFFLOAD", 1, 1.1, Gate.STRUCTURAL),
    Kind("rejected", "ART_RUNTIME_ERROR", 1, 0.0, Gate.INTAKE),
)


def judge_gates(kind: Kind) -> list[GateResult]:
    """Return what each gate said, without evidence."""
    return [
        GateResult(gate=gate, status=GateStatus.FAILED if gate is kind.failed_gate else GateStatus.PASSED, seconds=1.0)
        for gate in Gate
    ]


def draw_verdict(kind: Kind, task: str, environment: str, draw: random.Random) -> dict[str, Any]:
    """Return one verdict that ends in a certain way."""
    least = TARGET if kind.outcome == "passed" else 0.8
    measured = draw.uniform(min(least, kind.fastest), kind.fastest) if kind.fastest else None
    counted = measured if kind.outcome != "rejected" else None
    figures: dict[str, Any] = {
        "outcome": kind.outcome,
        "failures": [kind.code] if kind.code else [],
        "measured_speedup": measured,
        "speedup": counted,
        "target": TARGET,
        "capture": None if counted is None else min(1.0, max(0.0, (counted - 1) / (TARGET - 1))),
        "verifier_version": "invented",
    }
    body = build_verdict(task, environment, "\n", gates=judge_gates(kind), **figures).model_dump(mode="json")
    return figures | {"primary_failure": kind.code, "digest": "0" * 64, "body": body}


def populate(runs: int, *, systems: int, environment: str = "h200", seed: int = 1) -> None:
    """Write `runs` public runs of `systems` invented systems over all tasks, and their standings."""
    from portal.accounts.models import Team, User  # noqa: PLC0415  after the settings
    from portal.catalog.models import Task  # noqa: PLC0415
    from portal.standings.services import refresh_standing  # noqa: PLC0415
    from portal.systems.models import System  # noqa: PLC0415

    user, _ = User.objects.get_or_create(username="invented")
    team, _ = Team.objects.get_or_create(slug="invented", defaults={"name": "Invented team"})
    names = [f"Invented system {number + 1}" for number in range(systems)]
    rows = [
        System.objects.get_or_create(slug=f"invented-{number + 1}", defaults={"name": name, "team": team})[0]
        for number, name in enumerate(names)
    ]
    tasks = list(Task.objects.values_list("id", "digest"))
    draw = random.Random(seed)
    # Each system makes its runs of one task before it comes to the next.
    plan = [
        (rows[number % systems], tasks[number // (systems * RUNS_A_TASK) % len(tasks)], number % systems)
        for number in range(runs)
    ]
    for start in range(0, runs, BATCH):
        write_batch(plan[start : start + BATCH], user, environment, draw, start)
    for system in rows:
        refresh_standing(environment_id=environment, system_id=system.pk)


def write_batch(
    plan: Sequence[tuple[System, tuple[str, str], int]], user: User, environment: str, draw: random.Random, start: int
) -> None:
    """Write some runs, each with an attempt and a verdict."""
    from portal.runs.models import Attempt, Run, Source, Verdict  # noqa: PLC0415

    source, _ = Source.objects.get_or_create(sha256="0" * 64, defaults={"text": "\n", "bytes": 1, "lines": 1})
    moments = [START + timedelta(minutes=7 * (start + number)) for number in range(len(plan))]
    runs = Run.objects.bulk_create(
        Run(
            public_id=uuid.UUID(int=draw.getrandbits(128), version=4), task_id=task, task_digest=digest,
            environment_id=environment, system=system, team=system.team, submitted_by=user, source=source,
            wall_clock_seconds=draw.randint(600, 3_600),
            visibility="public", state="finished", attempt=1, started_at=moment, finished_at=moment,
        )
        for (system, (task, digest), _), moment in zip(plan, moments, strict=True)
    )  # fmt: skip
    attempts = Attempt.objects.bulk_create(
        Attempt(run=run, number=1, worker="invented", started_at=moment, ended_at=moment, outcome="finished")
        for run, moment in zip(runs, moments, strict=True)
    )
    kinds = [choose_kind(skill, draw) for _, _, skill in plan]
    verdicts = Verdict.objects.bulk_create(
        Verdict(
            run=run, attempt=attempt, created_at=moment, **draw_verdict(kind, run.task_id, environment, draw),
        )
        for run, attempt, kind, moment in zip(runs, attempts, kinds, moments, strict=True)
    )  # fmt: skip
    for run, verdict in zip(runs, verdicts, strict=True):
        run.verdict = verdict
    Run.objects.bulk_update(runs, ["verdict"], batch_size=500)


def choose_kind(skill: int, draw: random.Random) -> Kind:
    """Return how a run ends; systems with a higher number do worse."""
    weights = [kind.weight / (1 + skill) if kind.outcome == "passed" else kind.weight for kind in KINDS]
    return draw.choices(KINDS, weights)[0]


def main(arguments: Iterator[str]) -> None:
    """Populate the database of the settings with as many runs as the command line says."""
    import django  # noqa: PLC0415

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
    django.setup()
    runs = int(next(arguments, "1200"))
    populate(runs, systems=int(next(arguments, "4")))


if __name__ == "__main__":
    main(iter(sys.argv[1:]))
