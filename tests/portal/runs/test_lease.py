from __future__ import annotations

import uuid
from datetime import timedelta

import pytest
from django.db import IntegrityError, transaction
from django.db.models.functions import Now
from django.utils import timezone
from django_q.models import OrmQ
from pytest_django import DjangoCaptureOnCommitCallbacks

from portal.runs import lease
from portal.runs.lease import LeaseLost, LeaseStatus, VerdictMismatch
from portal.runs.models import Attempt, GateResult, Run, Verdict
from portal.runs.services import cancel_run
from portal.runs.states import State
from portal.standings.models import Standing
from tests.conftest import People, Submit
from tests.portal.factories import judge, reject
from verifier.verdict import Evidence, FailureCode, Outcome

WORKER = "host:cpu-interpreter"


def claim(worker: str = WORKER) -> Run:
    run = lease.claim_run(environment="cpu-interpreter", worker=worker)
    assert run is not None
    return run


def token_of(run: Run) -> uuid.UUID:
    assert run.lease_token is not None
    return run.lease_token


def let_lease_expire(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(lease_expires_at=Now() - timedelta(seconds=1))


def lose_worker(run: Run) -> Run:
    let_lease_expire(run)
    assert lease.reap_expired_leases() == 1
    run.refresh_from_db()
    return run


class TestClaim:
    def test_it_leases_the_run(self, run: Run) -> None:
        claimed = claim()
        assert (claimed.pk, claimed.state, claimed.attempt, claimed.worker) == (run.pk, State.LEASED, 1, WORKER)
        assert claimed.lease_expires_at is not None
        assert timedelta(seconds=20) < claimed.lease_expires_at - timezone.now() < timedelta(seconds=40)
        attempt = claimed.attempts.get()
        assert (attempt.number, attempt.worker, attempt.outcome) == (1, WORKER, "")

    def test_a_run_is_claimed_once(self, run: Run) -> None:
        claim()
        assert lease.claim_run(environment="cpu-interpreter", worker="other") is None

    def test_only_of_its_environment(self, run: Run) -> None:
        assert lease.claim_run(environment="h200", worker=WORKER) is None

    def test_priority_goes_first_then_age(self, submit: Submit) -> None:
        old, new, urgent = submit(), submit(), submit()
        Run.objects.filter(pk=urgent.pk).update(priority=5)
        assert list(Run.objects.ahead_of(new)) == [urgent, old]
        assert [claim().pk for _ in range(3)] == [urgent.pk, old.pk, new.pk]

    def test_nothing_is_due(self, catalog: None) -> None:
        assert lease.claim_run(environment="cpu-interpreter", worker=WORKER) is None


class TestFence:
    """A worker whose lease was given to another one changes nothing."""

    @pytest.fixture
    def stale(self, run: Run) -> uuid.UUID:
        first = claim()
        token = token_of(first)
        lose_worker(first)
        assert claim("another").attempt == 2
        return token

    def test_it_cannot_renew(self, stale: uuid.UUID) -> None:
        assert lease.renew_lease(token=stale) is LeaseStatus.LOST

    def test_it_cannot_begin(self, stale: uuid.UUID) -> None:
        with pytest.raises(LeaseLost):
            lease.begin_run(token=stale)

    def test_it_cannot_record_progress(self, stale: uuid.UUID, run: Run) -> None:
        with pytest.raises(LeaseLost):
            lease.record_progress(token=stale, current_gate="policy", progress={"policy": {"state": "started"}})
        run.refresh_from_db()
        assert (run.current_gate, run.progress) == ("", {})

    def test_it_cannot_finish(self, stale: uuid.UUID, run: Run) -> None:
        with pytest.raises(LeaseLost):
            lease.finish_run(token=stale, verdict=judge(run))
        assert not Verdict.objects.exists()

    def test_it_cannot_fail(self, stale: uuid.UUID, run: Run) -> None:
        with pytest.raises(LeaseLost):
            lease.fail_attempt(token=stale, reason="late")
        run.refresh_from_db()
        assert (run.state, run.worker) == (State.LEASED, "another")


class TestFinish:
    def test_it_writes_the_verdict_with_its_gates(self, run: Run) -> None:
        claimed = claim()
        lease.begin_run(token=token_of(claimed))
        verdict = lease.finish_run(token=token_of(claimed), verdict=judge(run), log_tail="last words")
        run.refresh_from_db()
        assert verdict is not None
        assert (run.state, run.worker, run.lease_token, run.lease_expires_at) == (State.FINISHED, "", None, None)
        assert run.finished_at is not None
        assert (run.verdict, verdict.outcome, verdict.primary_code) == (verdict, "accepted", None)
        assert verdict.parse_body() == judge(run)
        gates = list(verdict.gates.values_list("gate", "status"))
        assert gates[0] == ("intake", "passed")
        assert gates[4] == ("performance", "not_timed")
        attempt = run.attempts.get()
        assert (attempt.outcome, attempt.log_tail, attempt.verdicts.get()) == ("finished", "last words", verdict)

    def test_a_second_finish_is_refused(self, run: Run) -> None:
        token = token_of(claim())
        lease.finish_run(token=token, verdict=judge(run))
        with pytest.raises(LeaseLost):
            lease.finish_run(token=token, verdict=reject(run))
        assert Verdict.objects.get().outcome == "accepted"

    def test_the_database_itself_refuses_a_second_verdict(self, run: Run) -> None:
        lease.finish_run(token=token_of(claim()), verdict=judge(run))
        first = Verdict.objects.get()
        again = Attempt.objects.create(run=run, number=2, worker=WORKER, started_at=Now())
        with pytest.raises(IntegrityError), transaction.atomic():
            Verdict.objects.create(run=run, attempt=again, outcome="accepted", body=first.body)

    def test_a_failing_write_leaves_the_run_as_it_was(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        token = token_of(claim())
        monkeypatch.setattr(GateResult.objects, "bulk_create", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            lease.finish_run(token=token, verdict=judge(run))
        assert not Verdict.objects.exists()
        assert lease.renew_lease(token=token) is LeaseStatus.HELD

    @pytest.mark.parametrize(
        "other", [{"task": "l1-01"}, {"environment": "h200"}, {"source": "other"}], ids=lambda other: next(iter(other))
    )
    def test_a_verdict_for_something_else_is_refused(self, run: Run, other: dict[str, str]) -> None:
        token = token_of(claim())
        verdict = judge(run).model_copy(update={"solution_sha256": "0" * 64} if "source" in other else other)
        with pytest.raises(VerdictMismatch):
            lease.finish_run(token=token, verdict=verdict)
        assert lease.renew_lease(token=token) is LeaseStatus.HELD

    def test_hostile_text_is_kept_whatever_it_holds(self, run: Run) -> None:
        hostile = "a\0b <script>alert(1)</script> \\u0000 \U0001f600"
        verdict = judge(run, evidence=Evidence(output_tail=hostile))
        lease.finish_run(token=token_of(claim()), verdict=verdict, log_tail=hostile)
        kept = Verdict.objects.get().parse_body().evidence.output_tail
        assert kept == hostile.replace("\0", "\ufffd")

    def test_figures_without_bounds_are_kept_as_unknown(self, run: Run) -> None:
        verdict = judge(run, measured_speedup=float("inf"))
        lease.finish_run(token=token_of(claim()), verdict=verdict)
        assert Verdict.objects.get().measured_speedup is None

    def test_a_rejected_run_keeps_its_measured_speedup_and_counts_none(self, run: Run) -> None:
        verdict = reject(run, FailureCode.PREC_TF32, measured_speedup=3.0, target=2.0)
        lease.finish_run(token=token_of(claim()), verdict=verdict)
        row = Verdict.objects.get()
        assert (row.measured_speedup, row.speedup, row.primary_code) == (3.0, None, FailureCode.PREC_TF32)


class TestInfrastructure:
    def test_a_fault_puts_the_run_back(self, run: Run) -> None:
        assert lease.fail_attempt(token=token_of(claim()), reason="no sandbox", log_tail="trace") is State.QUEUED
        run.refresh_from_db()
        assert (run.state, run.attempt, run.lease_token, run.worker) == (State.QUEUED, 1, None, "")
        attempt = run.attempts.get()
        assert (attempt.outcome, attempt.reason, attempt.log_tail) == ("infrastructure", "no sandbox", "trace")
        assert attempt.ended_at is not None

    def test_attempts_are_bounded(self, run: Run) -> None:
        states = [lease.fail_attempt(token=token_of(claim()), reason="again") for _ in range(3)]
        assert states == [State.QUEUED, State.QUEUED, State.CRASHED]
        assert lease.claim_run(environment="cpu-interpreter", worker=WORKER) is None
        run.refresh_from_db()
        assert run.finished_at is not None

    def test_an_infrastructure_verdict_is_never_counted(self, submit: Submit) -> None:
        run = submit(visibility="public")
        verdict = judge(run, outcome=Outcome.INFRASTRUCTURE, failures=[FailureCode.INFRA_GPU_FAULT])
        for _ in range(3):
            assert lease.finish_run(token=token_of(claim()), verdict=verdict) is None
        run.refresh_from_db()
        assert run.state == State.CRASHED
        assert run.attempts.filter(reason__startswith="INFRA_GPU_FAULT").count() == 3
        assert not Verdict.objects.exists()
        assert not Standing.objects.exists()

    def test_a_requeued_run_is_woken_for(
        self, run: Run, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
    ) -> None:
        claimed = claim()
        with django_capture_on_commit_callbacks(execute=True):
            lease.fail_attempt(token=token_of(claimed), reason="again")
        assert OrmQ.objects.count() == 1


class TestReaper:
    def test_a_lost_worker_costs_one_attempt(self, run: Run) -> None:
        claimed = lose_worker(claim())
        assert (claimed.state, claimed.attempt) == (State.QUEUED, 1)
        attempt = run.attempts.get()
        assert (attempt.outcome, WORKER in attempt.reason) == ("lease_expired", True)

    def test_a_run_that_kills_its_workers_is_parked(self, run: Run) -> None:
        states = [lose_worker(claim()).state for _ in range(3)]
        assert states == [State.QUEUED, State.QUEUED, State.CRASHED]

    def test_a_live_lease_is_left_alone(self, run: Run) -> None:
        claim()
        assert lease.reap_expired_leases() == 0

    def test_a_renewed_lease_is_left_alone(self, run: Run) -> None:
        claimed = claim()
        let_lease_expire(claimed)
        assert lease.renew_lease(token=token_of(claimed)) is LeaseStatus.HELD
        assert lease.reap_expired_leases() == 0

    def test_a_worker_known_to_be_dead_gives_back_at_once(self, submit: Submit) -> None:
        submit(), submit()
        mine, other = claim(), claim("other")
        assert lease.expire_leases_of(WORKER) == 1
        assert lease.reap_expired_leases() == 1
        mine.refresh_from_db()
        other.refresh_from_db()
        assert (mine.state, other.state) == (State.QUEUED, State.LEASED)


class TestCancelInProgress:
    def test_the_worker_hears_of_it_and_gives_the_run_back(self, run: Run, people: People) -> None:
        token = token_of(claim())
        cancel_run(run=run, user=people.alice)
        assert run.state == State.LEASED
        assert lease.renew_lease(token=token) is LeaseStatus.CANCELLED
        assert lease.fail_attempt(token=token, reason="cancelled") is State.CANCELLED
        assert run.attempts.get().outcome == "cancelled"

    def test_a_lost_worker_does_not_bring_it_back(self, run: Run, people: People) -> None:
        claimed = claim()
        cancel_run(run=run, user=people.alice)
        assert lose_worker(claimed).state == State.CANCELLED

    def test_a_verdict_that_comes_first_stands(self, run: Run, people: People) -> None:
        token = token_of(claim())
        cancel_run(run=run, user=people.alice)
        lease.finish_run(token=token, verdict=judge(run))
        run.refresh_from_db()
        assert run.state == State.FINISHED
