from __future__ import annotations

from typing import Any

import pytest

from portal.catalog.models import Environment, Task
from portal.runs import lease
from portal.runs.models import Run
from portal.standings.models import Standing
from portal.standings.services import refresh_standing
from portal.systems.models import System
from portal.systems.services import create_system
from tests.conftest import People, Submit
from tests.portal.factories import judge
from verifier.verdict import FailureCode, Outcome


class Judge:
    """Submits a public run and gives it a verdict."""

    def __init__(self, submit: Submit) -> None:
        self.submit = submit

    def __call__(
        self, outcome: Outcome, *codes: FailureCode, submit: dict[str, Any] | None = None, **given: Any
    ) -> Run:
        run = self.submit(**{"visibility": "public"} | (submit or {}))
        claimed = lease.claim_run(environment=run.environment_id, worker="w")
        assert claimed is not None
        assert claimed.lease_token is not None
        lease.finish_run(token=claimed.lease_token, verdict=judge(run, outcome=outcome, failures=list(codes), **given))
        return run


@pytest.fixture
def decide(submit: Submit) -> Judge:
    return Judge(submit)


def test_outcomes_and_failure_modes_are_counted(decide: Judge) -> None:
    decide(Outcome.ACCEPTED)
    decide(Outcome.REJECTED, FailureCode.PREC_TF32, FailureCode.CORR_VALUE)
    decide(Outcome.REJECTED, FailureCode.PREC_DOWNCAST)
    decide(Outcome.REJECTED, FailureCode.STALE_CONSTANT)
    standing = Standing.objects.get()
    assert (standing.runs, standing.accepted, standing.rejected, standing.passed) == (4, 1, 3, 0)
    assert standing.failure_modes == {"precision_loss": 2, "stale_output": 1}
    assert standing.geometric_mean_speedup is None


def test_tasks_are_counted_by_how_often_they_were_passed(decide: Judge) -> None:
    other = {"task": Task.objects.get(id="l1-01")}
    third = {"task": Task.objects.get(id="l2-01")}
    decide(Outcome.PASSED, speedup=2.0)
    decide(Outcome.PASSED, speedup=2.0)
    decide(Outcome.PASSED, speedup=2.0, submit=other)
    decide(Outcome.REJECTED, FailureCode.CORR_VALUE, submit=other)
    decide(Outcome.REJECTED, FailureCode.CORR_VALUE, submit=third)
    standing = Standing.objects.get()
    assert (standing.tasks, standing.tasks_covered) == (3, 2)
    assert (standing.tasks_passed_once, standing.tasks_passed_twice) == (2, 1)


def test_every_task_weighs_the_same_in_the_mean_speedup(decide: Judge) -> None:
    other = {"task": Task.objects.get(id="l1-01")}
    for speedup in (2.0, 2.0, 2.0):
        decide(Outcome.PASSED, speedup=speedup)
    decide(Outcome.BELOW_TARGET, FailureCode.PERF_BELOW_TARGET, speedup=8.0, submit=other)
    decide(Outcome.REJECTED, FailureCode.PREC_TF32, measured_speedup=100.0, target=2.0)
    standing = Standing.objects.get()
    assert standing.geometric_mean_speedup == pytest.approx(4.0)
    assert (standing.below_target, standing.rejected_fast) == (1, 1)


def test_a_speed_counts_where_no_target_is_certified_yet(decide: Judge) -> None:
    decide(Outcome.ACCEPTED, speedup=3.0, measured_speedup=3.0)
    decide(Outcome.REJECTED, FailureCode.PREC_TF32, measured_speedup=100.0)
    assert Standing.objects.get().geometric_mean_speedup == pytest.approx(3.0)


def test_rejected_and_slow_is_not_rejected_and_fast(decide: Judge) -> None:
    decide(Outcome.REJECTED, FailureCode.PREC_TF32, measured_speedup=1.9, target=2.0)
    decide(Outcome.REJECTED, FailureCode.PREC_TF32, measured_speedup=9.0)
    decide(Outcome.REJECTED, FailureCode.PREC_TF32)
    assert (Standing.objects.get().rejected, Standing.objects.get().rejected_fast) == (3, 0)


@pytest.mark.parametrize("visibility", ["private", "team"])
def test_runs_that_not_everybody_sees_do_not_count(decide: Judge, visibility: str) -> None:
    decide(Outcome.ACCEPTED, submit={"visibility": visibility})
    assert Standing.objects.get().runs == 0


def test_systems_are_counted_apart(decide: Judge, people: People) -> None:
    other = create_system(slug="other", name="Other", team=people.team)
    decide(Outcome.ACCEPTED)
    decide(Outcome.REJECTED, FailureCode.CORR_VALUE, submit={"system": other})
    assert list(Standing.objects.order_by("system").values_list("accepted", "rejected")) == [(1, 0), (0, 1)]


def test_refreshing_again_gives_the_same(decide: Judge, environment: Environment, system: System) -> None:
    decide(Outcome.ACCEPTED)
    before = Standing.objects.values().get()
    refresh_standing(environment_id=environment.pk, system_id=system.pk)
    after = Standing.objects.values().get()
    assert before | {"refreshed_at": None} == after | {"refreshed_at": None}
