from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from django.core.exceptions import ValidationError
from django.db import connection
from django.utils import timezone

from portal.review.reverification import queue_again
from portal.runs import lease
from portal.runs.models import Run
from portal.runs.quotas import QuotaExceeded, read_quota
from portal.runs.services import cancel_run
from portal.runs.states import State
from tests.conftest import People, Submit
from tests.portal.factories import judge
from tests.portal.pages.conftest import WORKER, start_run


@pytest.fixture(autouse=True)
def _two_a_day(people: People) -> None:
    people.team.daily_runs = 2
    people.team.save()


def test_the_third_run_of_the_day_is_refused_with_the_hour_of_the_next(submit: Submit, people: People) -> None:
    first = submit()
    Run.objects.filter(pk=first.pk).update(queued_at=timezone.now() - timedelta(hours=20))
    submit()
    with pytest.raises(QuotaExceeded, match="may submit 2 runs in 24 hours; 0 are left") as refusal:
        submit()
    opens = refusal.value.quota.next_slot
    assert opens is not None
    assert abs(opens - timezone.now() - timedelta(hours=4)) < timedelta(minutes=1)
    assert f"{opens:%H:%M} UTC" in refusal.value.messages[0]
    assert Run.objects.count() == 2


def test_a_run_leaves_the_window_after_24_hours(submit: Submit) -> None:
    for _ in range(2):
        submit()
    Run.objects.update(queued_at=timezone.now() - timedelta(hours=24, seconds=1))
    assert submit()


def test_the_window_does_not_move_with_the_clocks_of_any_zone(people: People, submit: Submit) -> None:
    submit()
    # The night in which clocks change in Europe: 24 hours stay 24 hours.
    Run.objects.update(queued_at=datetime(2026, 3, 28, 23, 30, tzinfo=UTC))
    assert read_quota(people.team, datetime(2026, 3, 29, 23, 29, tzinfo=UTC)).used == 1
    assert read_quota(people.team, datetime(2026, 3, 29, 23, 30, tzinfo=UTC)).used == 0


def test_our_own_faults_cost_nothing(submit: Submit, people: People) -> None:
    run = submit()
    for _ in range(run.max_attempts):
        held = lease.claim_run(environment=run.environment_id, worker=WORKER)
        assert held
        assert held.lease_token
        lease.fail_attempt(token=held.lease_token, reason="no device")
    run.refresh_from_db()
    assert run.state == State.CRASHED
    assert read_quota(people.team).used == 0


def test_what_is_cancelled_before_it_starts_costs_nothing_and_after_does(submit: Submit, people: People) -> None:
    waiting = submit()
    cancel_run(run=waiting, user=people.alice)
    assert read_quota(people.team).used == 0
    begun = submit()
    start_run(begun)
    cancel_run(run=begun, user=people.alice)
    assert read_quota(people.team).used == 1


def test_a_run_that_is_verified_again_is_not_open(submit: Submit, people: People) -> None:
    held = start_run(submit())
    assert held.lease_token
    lease.finish_run(token=held.lease_token, verdict=judge(held))
    assert queue_again(Run.objects.all()) == 1
    assert read_quota(people.team).open == 0


def test_so_many_runs_wait_at_once(submit: Submit, people: People) -> None:
    people.team.open_runs = 1
    people.team.save()
    submit()
    with pytest.raises(QuotaExceeded, match="wait for their verdict"):
        submit()
    assert read_quota(people.team).waits_for_verdicts


def test_a_bad_file_costs_nothing(submit: Submit, people: People) -> None:
    with pytest.raises(ValidationError):
        submit(source=b"\0")
    assert read_quota(people.team).used == 0


def test_other_teams_have_their_own(submit: Submit, people: People) -> None:
    submit()
    assert read_quota(people.other_team).used == 0
    people.team.daily_runs = None
    assert read_quota(people.team).daily == 600


@pytest.mark.django_db(transaction=True)
def test_of_two_at_once_one_is_taken(submit: Submit, people: People) -> None:
    people.team.daily_runs = 1
    people.team.save()

    def attempt(_: int) -> bool:
        try:
            submit()
        except QuotaExceeded:
            return False
        finally:
            connection.close()
        return True

    with ThreadPoolExecutor(4) as pool:
        taken = list(pool.map(attempt, range(4)))
    assert sorted(taken) == [False, False, False, True]
    assert Run.objects.count() == 1
