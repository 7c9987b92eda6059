"""What the trail promises: every deed is in it, and nobody changes it unseen."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection, transaction
from django.db.models import F
from django.test import Client

from portal.review.append_only import guard_table, list_missing, release_table
from portal.review.models import TrailEvent
from portal.review.trail import FIRST_HASH, find_break, record_event
from portal.runs import lease
from portal.runs.models import Run, Verdict
from portal.runs.services import cancel_run, set_visibility
from tests.conftest import GUARDED, People, Submit
from tests.portal.factories import judge
from tests.portal.pages.conftest import Visit
from tests.portal.runs.test_concurrency import WORKERS, do_at_once


def verify(**options: str) -> str:
    output = io.StringIO()
    call_command("verify_trail", stdout=output, **options)
    return output.getvalue()


def tamper(sql: str) -> None:
    """Change the table as somebody would who owns the database."""
    release_table(connection, "review_trailevent")
    with connection.cursor() as cursor:
        cursor.execute(sql)
    guard_table(connection, "review_trailevent", GUARDED["review_trailevent"])


@pytest.fixture
def chain(run: Run, people: People) -> Run:
    """A trail of four events: submitted, shown twice, cancelled."""
    for visibility in ("public", "team"):
        set_visibility(run=run, user=people.alice, visibility=visibility, release_source=False)
    return cancel_run(run=run, user=people.alice)


class TestRecording:
    def test_a_run_leaves_its_deeds_in_order(self, chain: Run, people: People) -> None:
        events = TrailEvent.objects.about(chain)
        assert [event.action for event in events] == ["run.submit", "run.show", "run.show", "run.cancel"]
        assert {event.actor for event in events} == {people.alice}
        shown = events[1]
        assert (shown.before_values["visibility"], shown.after_values["visibility"]) == ("private", "public")

    def test_a_verdict_is_attested_with_its_digest(self, run: Run) -> None:
        held = lease.claim_run(environment="cpu-interpreter", worker="host:cpu")
        assert held is not None
        assert held.lease_token is not None
        verdict = lease.finish_run(token=held.lease_token, verdict=judge(run))
        assert verdict is not None
        event = TrailEvent.objects.about(run).last()
        assert event is not None
        assert (event.action, event.actor, event.actor_name) == ("verdict.write", None, "host:cpu")
        assert event.after_values["digest"] == verdict.digest

    def test_a_failed_deed_leaves_nothing(self, run: Run, people: People) -> None:
        before = TrailEvent.objects.count()
        with transaction.atomic():
            set_visibility(run=run, user=people.alice, visibility="public", release_source=False)
            transaction.set_rollback(True)
        assert TrailEvent.objects.count() == before

    def test_a_request_is_named_with_its_address(self, run: Run, visit: Visit) -> None:
        answer = visit("alice").post(f"/runs/{run.public_id}/cancel/", REMOTE_ADDR="192.0.2.7")
        event = TrailEvent.objects.about(run).last()
        assert event is not None
        assert (event.address, event.request_id) == ("192.0.2.7", answer["X-Request-ID"])

    def test_a_visitor_cannot_choose_the_address(self, run: Run, people: People) -> None:
        client = Client()
        client.force_login(people.alice)
        client.post(f"/runs/{run.public_id}/cancel/", REMOTE_ADDR="192.0.2.7", HTTP_X_FORWARDED_FOR="203.0.113.1")
        assert TrailEvent.objects.latest("number").address == "192.0.2.7"

    def test_hostile_text_does_not_break_the_chain(self, run: Run, people: People) -> None:
        hostile = {"text": "a\0b \ud800 <script> \u202e", "number": 1e22, "small": 1e-7}
        record_event(actor=people.alice, action="test", subject=run, after=hostile)
        assert TrailEvent.objects.latest("number").after_values == hostile
        assert "holds" in verify()

    def test_the_account_may_go_and_the_event_stays(self, run: Run, people: People) -> None:
        record_event(actor=people.charlie, action="test", subject=run)
        people.charlie.delete()
        assert TrailEvent.objects.latest("number").actor_name == "charlie"
        assert "holds" in verify()


class TestReadingOfSources:
    @pytest.mark.parametrize("path", ["", "solution.py"])
    @pytest.mark.parametrize(
        ("role", "recorded"), [("alice", False), ("bob", False), ("charlie", False), ("staff", True), ("admin", True)]
    )
    def test_only_staff_who_read_what_is_not_theirs(
        self, submit: Submit, visit: Visit, path: str, role: str, *, recorded: bool
    ) -> None:
        run = submit(visibility="public")
        visit(role).get(f"/runs/{run.public_id}/{path}")
        assert TrailEvent.objects.filter(action="source.read", actor_name=role).exists() is recorded

    def test_a_released_source_is_read_freely(self, submit: Submit, visit: Visit) -> None:
        run = submit(visibility="public", release_source=True)
        visit("staff").get(f"/runs/{run.public_id}/")
        assert not TrailEvent.objects.filter(action="source.read").exists()


CHANGES: list[Callable[[], object]] = [
    lambda: TrailEvent.objects.filter(number=2).update(actor_name="nobody"),
    lambda: TrailEvent.objects.filter(number=2).delete(),
    lambda: TrailEvent.objects.all().delete(),
    lambda: TrailEvent.objects.update(number=F("number") + 1),
]


class TestTheDatabase:
    @pytest.mark.parametrize("change", CHANGES)
    def test_it_refuses_every_change(self, chain: Run, change: Callable[[], object]) -> None:
        with pytest.raises(DatabaseError, match="only ever added"), transaction.atomic():
            change()
        assert TrailEvent.objects.count() == 4

    def test_it_refuses_to_empty_or_replace(self, chain: Run) -> None:
        query = (
            "INSERT OR REPLACE INTO review_trailevent SELECT * FROM review_trailevent WHERE number = 2"
            if connection.vendor == "sqlite"
            else "TRUNCATE review_trailevent"
        )
        with (
            pytest.raises(DatabaseError, match="only ever added"),
            transaction.atomic(),
            connection.cursor() as cursor,
        ):
            cursor.execute(query)

    def test_it_refuses_to_change_a_verdict(self, run: Run) -> None:
        held = lease.claim_run(environment="cpu-interpreter", worker="w")
        assert held is not None
        assert held.lease_token is not None
        lease.finish_run(token=held.lease_token, verdict=judge(run))
        with pytest.raises(DatabaseError, match="only ever added"), transaction.atomic():
            Verdict.objects.update(outcome="passed")

    def test_it_refuses_a_fork(self, chain: Run) -> None:
        second = TrailEvent.objects.get(number=2)
        second.number, second.hash = 5, "f" * 64
        with pytest.raises(DatabaseError), transaction.atomic():
            second.save(force_insert=True)

    @pytest.mark.parametrize("table", GUARDED)
    def test_every_guard_stands_after_the_migrations(self, db: None, table: str) -> None:
        assert list_missing(connection, table) == []


class TestVerifying:
    def test_a_whole_trail_holds_and_its_head_is_told(self, chain: Run) -> None:
        last = TrailEvent.objects.latest("number")
        assert verify().strip() == f"The trail holds. The head is 4:{last.hash}"
        assert "holds" in verify(head=f"4:{last.hash}")

    def test_an_empty_trail_holds(self, db: None) -> None:
        assert "empty" in verify()

    @pytest.mark.parametrize(
        ("sql", "words"),
        [
            ("UPDATE review_trailevent SET actor_name = 'nobody' WHERE number = 2", "event 2: its content was changed"),
            ("UPDATE review_trailevent SET after = '{}' WHERE number = 3", "event 3: its content was changed"),
            ("DELETE FROM review_trailevent WHERE number = 2", "event 2: it is missing"),
            ("DELETE FROM review_trailevent WHERE number = 1", "event 1: it is missing"),
            ("UPDATE review_trailevent SET previous_hash = 'x' WHERE number = 3", "event 3: it does not follow"),
        ],
    )
    def test_the_first_broken_link_is_named(self, chain: Run, sql: str, words: str) -> None:
        tamper(sql)
        with pytest.raises(CommandError, match=words):
            verify()

    def test_a_cut_end_shows_against_an_earlier_head(self, chain: Run) -> None:
        last = TrailEvent.objects.latest("number")
        tamper("DELETE FROM review_trailevent WHERE number = 4")
        assert "holds" in verify()
        with pytest.raises(CommandError, match="event 4: it is not the event that was there"):
            verify(head=f"4:{last.hash}")

    @pytest.mark.parametrize("head", ["four", "4", "x:y"])
    def test_a_head_that_is_none_is_refused(self, chain: Run, head: str) -> None:
        with pytest.raises(CommandError, match=r"4: it is not|not NUMBER:HASH"):
            verify(head=head)

    @pytest.mark.parametrize("table", GUARDED)
    def test_a_missing_guard_is_told(self, chain: Run, table: str) -> None:
        release_table(connection, table)
        with pytest.raises(CommandError, match=f"{table}_no_delete"):
            verify()

    def test_the_chain_begins_at_nothing(self, chain: Run) -> None:
        assert TrailEvent.objects.get(number=1).previous_hash == FIRST_HASH
        assert find_break([]) is None


@pytest.mark.django_db(transaction=True)
def test_writers_at_once_do_not_fork_the_chain(run: Run, people: People) -> None:
    def write(number: int) -> None:
        for _ in range(5):
            record_event(actor=people.alice, action=f"writer.{number}", subject=run)

    do_at_once(write)
    assert TrailEvent.objects.filter(action__startswith="writer").count() == WORKERS * 5
    assert "holds" in verify()
