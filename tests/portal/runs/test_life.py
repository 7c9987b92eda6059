"""A run's life as a state machine: whatever happens in whatever order, the promises hold."""

from __future__ import annotations

import uuid
from datetime import timedelta

import pytest
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models.functions import Now
from hypothesis import HealthCheck, settings
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from portal.runs import lease
from portal.runs.lease import LeaseLost, LeaseStatus
from portal.runs.models import Run, Verdict
from portal.runs.services import cancel_run
from portal.runs.states import HELD, TERMINAL, State
from tests.conftest import Submit
from tests.portal.factories import judge
from verifier.verdict import FailureCode, Outcome


class RunLife(RuleBasedStateMachine):
    """Two runs, and workers that hold on to their tokens long after they lost them."""

    submit: Submit
    tokens = Bundle("tokens")

    def __init__(self) -> None:
        super().__init__()
        self.transaction = transaction.atomic()
        self.transaction.__enter__()
        self.runs = [self.submit(visibility="public") for _ in range(2)]
        self.ended: dict[int, tuple[str, object]] = {}

    def teardown(self) -> None:
        transaction.set_rollback(True)
        self.transaction.__exit__(None, None, None)

    def holds(self, token: uuid.UUID) -> Run | None:
        return Run.objects.filter(lease_token=token).first()

    @rule(target=tokens)
    def claim(self) -> uuid.UUID:
        due = set(Run.objects.due().values_list("pk", flat=True))
        run = lease.claim_run(environment="cpu-interpreter", worker="w")
        assert (run is None) == (not due)
        if run is None:
            return uuid.uuid4()
        assert run.pk in due
        assert run.lease_token is not None
        return run.lease_token

    @rule(token=tokens)
    def begin(self, token: uuid.UUID) -> None:
        held = self.holds(token)
        if held is None or held.state != State.LEASED:
            with pytest.raises(LeaseLost):
                lease.begin_run(token=token)
        else:
            lease.begin_run(token=token)

    @rule(token=tokens)
    def renew(self, token: uuid.UUID) -> None:
        held = self.holds(token)
        expected = LeaseStatus.LOST
        if held is not None:
            expected = LeaseStatus.CANCELLED if held.cancel_requested_at else LeaseStatus.HELD
        assert lease.renew_lease(token=token) is expected

    @rule(token=tokens)
    def expire(self, token: uuid.UUID) -> None:
        Run.objects.filter(lease_token=token).update(lease_expires_at=Now() - timedelta(seconds=1))

    @rule(token=tokens)
    def finish(self, token: uuid.UUID) -> None:
        self.settle(token, Outcome.ACCEPTED)

    @rule(token=tokens)
    def finish_with_a_fault(self, token: uuid.UUID) -> None:
        self.settle(token, Outcome.INFRASTRUCTURE)

    def settle(self, token: uuid.UUID, outcome: Outcome) -> None:
        held = self.holds(token)
        failures = [FailureCode.INFRA_GPU_FAULT] if outcome is Outcome.INFRASTRUCTURE else []
        verdict = judge(held or self.runs[0], outcome=outcome, failures=failures)
        if held is None:
            with pytest.raises(LeaseLost):
                lease.finish_run(token=token, verdict=verdict)
            return
        assert (lease.finish_run(token=token, verdict=verdict) is None) == bool(failures)

    @rule(token=tokens)
    def fail(self, token: uuid.UUID) -> None:
        if self.holds(token) is None:
            with pytest.raises(LeaseLost):
                lease.fail_attempt(token=token, reason="fault")
        else:
            lease.fail_attempt(token=token, reason="fault")

    @rule()
    def cancel(self) -> None:
        run = Run.objects.get(pk=self.runs[0].pk)
        if run.is_terminal:
            with pytest.raises(ValidationError):
                cancel_run(run=run, user=run.submitted_by)
        else:
            cancel_run(run=run, user=run.submitted_by)

    @rule()
    def reap(self) -> None:
        expired = Run.objects.expired().count()
        assert lease.reap_expired_leases() == expired
        assert not Run.objects.expired().exists()

    @invariant()
    def attempts_are_bounded_and_told(self) -> None:
        for run in Run.objects.prefetch_related("attempts"):
            assert run.attempt <= run.max_attempts
            assert [attempt.number for attempt in run.attempts.all()] == list(range(1, run.attempt + 1))

    @invariant()
    def only_a_held_run_has_an_open_attempt(self) -> None:
        for run in Run.objects.all():
            assert run.attempts.filter(outcome="").count() == (run.state in HELD)

    @invariant()
    def a_verdict_belongs_to_a_finished_run(self) -> None:
        finished = Run.objects.filter(state=State.FINISHED).values_list("pk", flat=True)
        assert sorted(Verdict.objects.values_list("run", flat=True)) == sorted(finished)

    @invariant()
    def an_end_is_final(self) -> None:
        for run in Run.objects.filter(state__in=TERMINAL):
            assert self.ended.setdefault(run.pk, (run.state, run.finished_at)) == (run.state, run.finished_at)

    @invariant()
    def nothing_is_stuck(self) -> None:
        """An open run is due, or held by a lease that ends by itself."""
        for run in Run.objects.open():
            assert run.state == State.QUEUED or run.lease_expires_at is not None


def test_a_run_keeps_its_promises_whatever_happens(submit: Submit) -> None:
    RunLife.submit = submit
    options = settings(max_examples=30, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck))
    run_state_machine_as_test(RunLife, settings=options)
