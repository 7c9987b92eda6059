"""A correction is a further verdict with a reason; everything that counts follows at once, and any day can be read."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest
from django.core.exceptions import ValidationError
from django.db import IntegrityError, connection, transaction
from django.test import Client

from portal.review.append_only import guard_table, release_table
from portal.review.reverification import queue_again
from portal.runs import lease
from portal.runs.models import Run, Verdict
from portal.runs.revisions import revise_verdict
from portal.standings.counts import read_failures, read_tallies
from portal.standings.models import Standing
from portal.standings.selection import Selection
from tests.conftest import GUARDED, People, Submit
from tests.portal.factories import judge, reject
from tests.portal.pages.conftest import Finish
from verifier.verdict import FailureCode, FailureMode, Outcome

FIRST_DAY, SECOND_DAY = date(2026, 3, 1), date(2026, 3, 2)


@pytest.fixture
def rejected(submit: Submit, finish: Finish) -> Run:
    return finish(submit(visibility="public"), reject, FailureCode.PREC_TF32)


def accept(run: Run, people: People) -> Verdict:
    verdict = revise_verdict(run=run, verdict=judge(run), reason="The rule was wrong.", decided_by=people.staff)
    run.refresh_from_db()
    return verdict


def date_verdicts(run: Run, *days: date) -> None:
    """Give the verdicts of `run` these days, past the guard that keeps everybody from it."""
    release_table(connection, "runs_verdict")
    for verdict, day in zip(run.verdicts.order_by("number"), days, strict=True):
        Verdict.objects.filter(pk=verdict.pk).update(created_at=datetime(day.year, day.month, day.day, 12, tzinfo=UTC))
    guard_table(connection, "runs_verdict", GUARDED["runs_verdict"])


def test_the_first_verdict_stays_beside_its_revision(rejected: Run, people: People) -> None:
    first = rejected.verdict
    second = accept(rejected, people)
    assert rejected.verdict == second
    assert list(rejected.verdicts.values_list("number", "outcome", "reason")) == [
        (1, "rejected", ""),
        (2, "accepted", "The rule was wrong."),
    ]
    assert (second.attempt, second.decided_by) == (first.attempt if first else None, people.staff)
    assert second.gates.count() == len(judge(rejected).gates)


def test_a_revision_needs_a_reason(rejected: Run, people: People) -> None:
    with pytest.raises(IntegrityError, match="verdict_revision_has_reason"), transaction.atomic():
        revise_verdict(run=rejected, verdict=judge(rejected), reason="", decided_by=people.staff)


def test_a_run_without_a_verdict_has_nothing_to_revise(run: Run, people: People) -> None:
    with pytest.raises(ValidationError, match="being verified"):
        revise_verdict(run=run, verdict=judge(run), reason="No.", decided_by=people.staff)


def test_the_board_the_files_and_the_feed_follow_at_once(rejected: Run, people: People, client: Client) -> None:
    def read() -> tuple[int, int, str]:
        row = client.get("/board.json").json()["rows"][0]
        cells = client.get("/board.csv").content.decode().splitlines()
        record = dict(zip(cells[0].split(","), cells[1].split(","), strict=True))
        assert record["runs_rejected"] == str(row["runs_rejected"])
        assert record["runs_succeeded"] == str(row["runs_succeeded"])
        return row["runs_succeeded"], row["runs_rejected"], row["latest_verdict"]

    before, feed = read(), client.get("/board.atom").content
    assert before[:2] == (0, 1)
    accept(rejected, people)
    after = read()
    assert after[:2] == (1, 0)
    assert after[2] > before[2]
    assert client.get("/board.atom").content != feed
    standing = Standing.objects.get()
    assert (standing.accepted, standing.rejected, standing.failure_modes) == (1, 0, {})


def test_the_board_of_an_earlier_day_has_the_verdict_of_that_day(rejected: Run, people: People) -> None:
    accept(rejected, people)
    date_verdicts(rejected, FIRST_DAY, SECOND_DAY)
    assert read_tallies(Selection(as_of=date(2026, 2, 28))) == []
    earlier, later = (read_tallies(Selection(as_of=day))[0] for day in (FIRST_DAY, SECOND_DAY))
    assert (earlier.rejected, earlier.cleared, earlier.runs) == (1, 0, 1)
    assert (later.rejected, later.cleared, later.runs) == (0, 1, 1)
    assert [count.mode for count in read_failures(Selection(as_of=FIRST_DAY))] == [FailureMode.PRECISION_LOSS]
    assert read_failures(Selection(as_of=SECOND_DAY)) == []


def test_the_page_of_an_earlier_day_agrees_with_its_file(rejected: Run, people: People, client: Client) -> None:
    accept(rejected, people)
    date_verdicts(rejected, FIRST_DAY, SECOND_DAY)
    row = client.get(f"/board.json?as_of={FIRST_DAY}").json()["rows"][0]
    assert (row["runs_rejected"], row["latest_verdict"]) == (1, "2026-03-01T12:00:00+00:00")
    today = client.get("/board.json").json()["rows"][0]
    assert (today["runs_rejected"], today["runs_succeeded"]) == (0, 1)


class TestVerifiedAgain:
    """A finished run that is queued again."""

    @pytest.fixture
    def again(self, rejected: Run) -> Run:
        assert queue_again(Run.objects.filter(pk=rejected.pk)) == 1
        rejected.refresh_from_db()
        return rejected

    def claim(self, run: Run) -> Run:
        held = lease.claim_run(environment=run.environment_id, worker="w")
        assert held is not None
        return held

    def test_its_verdict_stands_and_counts_meanwhile(self, again: Run) -> None:
        ended_at = again.finished_at
        assert again.is_verified_again
        held = self.claim(again)
        assert held.finished_at == ended_at is not None
        assert (held.attempt, held.verdict_id) == (2, again.verdict_id)
        assert read_tallies(Selection(as_of=date.max))[0].rejected == 1

    def test_the_new_verdict_is_a_revision(self, again: Run) -> None:
        held = self.claim(again)
        assert held.lease_token is not None
        lease.finish_run(token=held.lease_token, verdict=judge(held))
        again.refresh_from_db()
        assert again.verdict is not None
        assert (again.verdict.number, again.verdict.outcome, again.verdict.attempt.number) == (2, "accepted", 2)
        assert Standing.objects.get().accepted == 1

    def test_a_fault_of_ours_leaves_the_verdict(self, again: Run) -> None:
        for _ in range(3):
            held = self.claim(again)
            assert held.lease_token is not None
            state = lease.fail_attempt(token=held.lease_token, reason="no sandbox")
        again.refresh_from_db()
        assert (state, again.state) == ("finished", "finished")
        assert again.verdict is not None
        assert again.verdict.outcome == Outcome.REJECTED

    def test_others_go_first(self, again: Run, submit: Submit) -> None:
        fresh = submit()
        assert self.claim(fresh).pk == fresh.pk
        assert self.claim(again).pk == again.pk

    def test_a_run_that_is_being_verified_is_not_queued_twice(self, again: Run) -> None:
        assert queue_again(Run.objects.filter(pk=again.pk)) == 0
