"""Rows by task say what a recount of the runs says, after whatever happened to the runs, and however they are filtered."""

from __future__ import annotations

from collections import Counter
from datetime import date, timedelta
from importlib import import_module
from itertools import product
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.db import connection, transaction
from django.db.migrations.loader import MigrationLoader
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from portal.catalog.models import Environment, Release, Task
from portal.ops.services import register_worker
from portal.runs import lease
from portal.runs.models import Run
from portal.runs.services import cancel_run, set_visibility
from portal.standings.boards import build_board
from portal.standings.counts import FailureCount, Tally, read_failures, read_latest, read_tallies
from portal.standings.models import Standing, TaskStanding
from portal.standings.selection import Selection
from portal.standings.services import refresh_standing
from portal.systems.models import System
from portal.systems.services import create_system
from tests.conftest import People, Submit
from tests.portal.factories import judge
from tests.portal.population import populate
from verifier.verdict import FailureCode, Outcome

FOREVER = date(9999, 12, 30)
TASKS = ("l1-01", "l1-09", "l2-01")
ENVIRONMENTS = ("cpu-interpreter", "h200")
ENDS: list[dict[str, Any]] = [
    {"outcome": Outcome.PASSED, "speedup": 3.0, "measured_speedup": 3.0, "target": 2.0, "capture": 1.0},
    {"outcome": Outcome.ACCEPTED, "speedup": 1.7, "measured_speedup": 1.7},
    {"outcome": Outcome.ACCEPTED},
    {
        "outcome": Outcome.BELOW_TARGET, "failures": [FailureCode.PERF_BELOW_TARGET], "speedup": 1.5,
        "measured_speedup": 1.5, "target": 2.0, "capture": 0.5,
    },
    {"outcome": Outcome.REJECTED, "failures": [FailureCode.PREC_TF32], "measured_speedup": 9.0, "target": 2.0},
    {"outcome": Outcome.REJECTED, "failures": [FailureCode.CORR_VALUE], "measured_speedup": 1.1, "target": 2.0},
    {"outcome": Outcome.INFRASTRUCTURE, "failures": [FailureCode.INFRA_GPU_FAULT]},
]  # fmt: skip


def settle_floats(tallies: list[Tally]) -> list[Tally]:
    """Return `tallies` in one order, without what the order of a sum does to its last digits."""
    mean = [one._replace(mean_log_speedup=round(one.mean_log_speedup or 0, 9)) for one in tallies]
    return sorted((one._replace(captured=round(one.captured, 9)) for one in mean), key=repr)


def add_failures(counts: list[FailureCount]) -> Counter[tuple[object, ...]]:
    """Return failures by environment, system, level and mode."""
    total: Counter[tuple[object, ...]] = Counter()
    for count in counts:
        total[count.environment, count.system, count.level, count.mode] += count.runs
    return total


def check_agreement(selection: Selection) -> None:
    """Fail unless rows and runs say the same of `selection`."""
    recount = selection.change(as_of=FOREVER)
    assert settle_floats(read_tallies(selection)) == settle_floats(read_tallies(recount))
    assert add_failures(read_failures(selection)) == add_failures(read_failures(recount))
    assert read_latest(selection) == read_latest(recount)


class Rows(RuleBasedStateMachine):
    """Runs of two systems for three tasks in two environments, judged, shown, hidden and cancelled in any order."""

    submit: Submit
    systems: list[System]

    def __init__(self) -> None:
        super().__init__()
        self.transaction = transaction.atomic()
        self.transaction.__enter__()
        self.tasks = list(Task.objects.filter(id__in=TASKS))
        self.environments = list(Environment.objects.filter(slug__in=ENVIRONMENTS))

    def teardown(self) -> None:
        transaction.set_rollback(True)
        self.transaction.__exit__(None, None, None)

    def choose(self, number: int) -> Run | None:
        runs = list(Run.objects.order_by("id"))
        return runs[number % len(runs)] if runs else None

    @rule(
        task=st.integers(0, 2), environment=st.integers(0, 1), system=st.integers(0, 1), visible=st.booleans(),
        end=st.none() | st.sampled_from(ENDS), digest=st.sampled_from("ab"),
    )  # fmt: skip
    def start(  # noqa: PLR0913  hypothesis names its arguments
        self, *, task: int, environment: int, system: int, visible: bool, end: dict[str, Any] | None, digest: str
    ) -> None:
        self.tasks[task].digest = 64 * digest
        run = self.submit(
            task=self.tasks[task],
            environment=self.environments[environment],
            system=self.systems[system],
            visibility="public" if visible else "private",
        )
        if end:
            self.decide(run.environment_id, end)

    @rule(environment=st.sampled_from(ENVIRONMENTS), end=st.sampled_from(ENDS))
    def decide(self, environment: str, end: dict[str, Any]) -> None:
        run = lease.claim_run(environment=environment, worker="w")
        if run and run.lease_token:
            lease.finish_run(token=run.lease_token, verdict=judge(run, **end))

    @rule(number=st.integers(0, 50), visibility=st.sampled_from(Run.Visibility.values))
    def show(self, number: int, visibility: str) -> None:
        if run := self.choose(number):
            set_visibility(run=run, user=run.submitted_by, visibility=visibility, release_source=False)

    @rule(number=st.integers(0, 50))
    def cancel(self, number: int) -> None:
        run = self.choose(number)
        if run and run.is_terminal:
            with pytest.raises(ValidationError):
                cancel_run(run=run, user=run.submitted_by)
        elif run:
            cancel_run(run=run, user=run.submitted_by)

    @invariant()
    def rows_agree(self) -> None:
        check_agreement(Selection())

    @invariant()
    def standings_agree(self) -> None:
        for standing in Standing.objects.all():
            runs = Run.objects.counted().filter(environment=standing.environment_id, system=standing.system_id)
            outcomes = Counter(runs.values_list("verdict__outcome", flat=True))
            figures = (standing.passed, standing.accepted, standing.below_target, standing.rejected)
            assert figures == tuple(outcomes[name] for name in ("passed", "accepted", "below_target", "rejected"))
            assert standing.runs == sum(outcomes.values())


def test_rows_agree_with_the_runs_whatever_happens(submit: Submit, people: People, system: System) -> None:
    register_worker(name="host:h200", environment="h200", host="host")
    Rows.submit = submit
    Rows.systems = [system, create_system(slug="other", name="Other", team=people.team)]
    options = settings(max_examples=25, stateful_step_count=15, deadline=None, suppress_health_check=list(HealthCheck))
    run_state_machine_as_test(Rows, settings=options)


@pytest.fixture
def _populated(catalog: None) -> None:
    populate(400, systems=3)
    populate(100, systems=2, environment="l40s", seed=2)


@pytest.mark.usefixtures("_populated")
def test_rows_agree_with_the_runs_in_every_selection() -> None:
    families = ["", *Task.objects.values_list("family", flat=True).distinct()[:3]]
    for environment, level, dtype, family in product(["", "h200", "l40s"], ["", "L1", "L2"], ["", "fp32"], families):
        check_agreement(Selection(environment, level, family, dtype))
    assert len(read_tallies(Selection())) > len(read_tallies(Selection(level="L1"))) > 0


@pytest.mark.usefixtures("_populated")
def test_an_earlier_day_counts_the_runs_until_then() -> None:
    moments = sorted(moment for moment in Run.objects.values_list("finished_at", flat=True) if moment)
    day = moments[len(moments) // 2].date()
    counted = sum(tally.runs for tally in read_tallies(Selection(as_of=day)))
    assert counted == Run.objects.filter(finished_at__date__lte=day).count() < len(moments)
    assert read_tallies(Selection(as_of=moments[0].date() - timedelta(days=1))) == []


@pytest.mark.usefixtures("_populated")
def test_a_task_that_moves_to_another_level_takes_its_rows_along() -> None:
    before = len(read_tallies(Selection(level="L1")))
    moved = TaskStanding.objects.filter(task="l1-01").count()
    Task.objects.filter(id="l1-01").update(level="L2")
    assert moved
    assert len(read_tallies(Selection(level="L1"))) == before - moved


@pytest.mark.usefixtures("_populated")
def test_a_refresh_of_everything_mends_rows_that_are_wrong() -> None:
    standing = Standing.objects.filter(environment="h200")[0]
    own = TaskStanding.objects.filter(environment="h200", system=standing.system_id)
    own.update(passed=999)
    own[0].delete()
    refresh_standing(environment_id="h200", system_id=standing.system_id)
    check_agreement(Selection())


@pytest.mark.usefixtures("_populated")
def test_the_migration_counts_runs_that_were_judged_before() -> None:
    rename_some_digests()
    expected = list_rows()
    TaskStanding.objects.filter(task="l1-09").update(task_digest="", runs=1)
    name = "0007_count_by_digest"
    then = MigrationLoader(connection).project_state(("standings", name)).apps
    import_module(f"portal.standings.migrations.{name}").count_by_digest(then, None)
    assert list_rows() == expected


def rename_some_digests() -> int:
    """Let some runs of one task be those of another version of it, and return how many."""
    changed = [run.pk for run in Run.objects.filter(task="l1-01", environment="h200")[:7]]
    Run.objects.filter(pk__in=changed).update(task_digest="f" * 64)
    for standing in Standing.objects.all():
        refresh_standing(environment_id=standing.environment_id, system_id=standing.system_id)
    return len(changed)


def list_rows() -> list[dict[str, Any]]:
    """Return all rows in one order, without what the order of a sum does to its last digits."""
    rows = TaskStanding.objects.order_by("environment", "system", "task", "task_digest").values()
    listed = []
    for row in rows:
        floats = {"captured": round(row["captured"], 9), "mean_log_speedup": round(row["mean_log_speedup"] or 0, 9)}
        listed.append({**row, "id": 0} | floats)
    return listed


@pytest.mark.usefixtures("_populated")
def test_versions_of_a_task_are_one_task_unless_a_release_is_chosen() -> None:
    before, standings = settle_floats(read_tallies(Selection())), list(Standing.objects.values())
    rows = TaskStanding.objects.count()
    rename_some_digests()
    assert TaskStanding.objects.count() > rows
    assert settle_floats(read_tallies(Selection())) == before
    check_agreement(Selection())
    check_agreement(Selection(release=Release.objects.get().slug))
    changing = ("geometric_mean_speedup", "refreshed_at")
    for old, new in zip(standings, Standing.objects.values(), strict=True):
        assert old["geometric_mean_speedup"] == pytest.approx(new["geometric_mean_speedup"])
        assert {**old, **dict.fromkeys(changing)} == {**new, **dict.fromkeys(changing)}


@pytest.mark.usefixtures("_populated")
def test_a_release_counts_the_runs_of_its_tasks_as_they_were_then() -> None:
    release = Release.objects.get()
    everything = read_tallies(Selection())
    assert settle_floats(read_tallies(Selection(release=release.slug))) == settle_floats(everything)
    assert rename_some_digests() == 7
    counted = read_tallies(Selection(release=release.slug))
    assert sum(tally.runs for tally in counted) == sum(tally.runs for tally in everything) - 7
    failed = sum(count.runs for count in read_failures(Selection(release=release.slug)))
    assert 0 < failed < sum(count.runs for count in read_failures(Selection()))
    assert read_tallies(Selection(release="unknown")) == []


def test_the_mean_wall_clock_is_over_the_runs_that_have_one(submit: Submit, system: System) -> None:
    for seconds in (60, None, 120):
        run = submit(visibility="public", wall_clock_seconds=seconds)
        claimed = lease.claim_run(environment=run.environment_id, worker="w")
        assert claimed
        assert claimed.lease_token
        lease.finish_run(token=claimed.lease_token, verdict=judge(run))
    (row,) = build_board("cpu-interpreter", read_tallies(Selection())).rows
    assert (row.system, row.runs, row.clocked, row.wall_clock_seconds) == (system.pk, 3, 2, 90.0)
