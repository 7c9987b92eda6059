"""A worker under the restricted role of PostgreSQL: it does its work, and nothing else."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.core.management import CommandError, call_command
from django.db import DatabaseError, ProgrammingError, connection, transaction

from portal.accounts.tokens import create_token
from portal.notifications.models import Delivery, Notification, Preference, Webhook
from portal.ops.worker_role import can_read_sessions
from portal.review.models import TrailEvent
from portal.review.reverification import queue_again
from portal.runs import lease
from portal.runs.models import Run, Verdict
from portal.runs.services import cancel_run
from portal.runs.states import State
from portal.standings.models import Standing
from tests.conftest import People, Submit
from tests.portal.factories import judge, reject
from tests.portal.ops.test_worker import RunningWorker, wait_for_end
from tests.portal.processes import build_database_url, wait_for

ROLE = "kernelquest_worker"

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(connection.vendor != "postgresql", reason="only PostgreSQL has roles: make test-postgres"),
]


def execute(sql: str, *values: int) -> int:
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return int(cursor.rowcount)


def drop_role(role: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [role])
        if cursor.fetchone():
            cursor.execute(f"DROP OWNED BY {role}")
            cursor.execute(f"DROP ROLE {role}")


@pytest.fixture
def role(db: None) -> Iterator[str]:
    drop_role(ROLE)
    execute(f"CREATE ROLE {ROLE} LOGIN")
    call_command("grant_worker", ROLE, stdout=io.StringIO())
    yield ROLE
    drop_role(ROLE)


@contextlib.contextmanager
def be(role: str) -> Iterator[None]:
    """Let everything in the block be asked by `role`."""
    execute(f"SET SESSION AUTHORIZATION {role}")
    try:
        yield
    finally:
        execute("RESET SESSION AUTHORIZATION")


def claim() -> Run:
    run = lease.claim_run(environment="cpu-interpreter", worker="host:cpu-interpreter")
    assert run is not None
    assert run.lease_token is not None
    lease.begin_run(token=run.lease_token)
    return run


def finish(run: Run) -> Verdict | None:
    assert run.lease_token is not None
    return lease.finish_run(token=run.lease_token, verdict=judge(run), log_tail="the end")


@pytest.fixture
def told(people: People) -> None:
    """Everybody of the team is told by mail, and a webhook is called."""
    for user in (people.alice, people.bob):
        Preference.objects.create(user=user, kind="verdict", in_page=True, by_mail=True)
    Webhook.objects.create(team=people.team, url="https://example.org/hook", secret="s" * 64)


class TestItsWork:
    @pytest.mark.parametrize("visibility", ["private", "team", "public"])
    def test_a_run_gets_its_verdict_and_everything_that_follows(
        self, role: str, submit: Submit, told: None, visibility: str
    ) -> None:
        run = submit(visibility=visibility)
        with be(role):
            held = claim()
            assert held.source.text == run.source.text
            assert held.lease_token is not None
            lease.record_progress(token=held.lease_token, current_gate="intake", progress={"intake": {}})
            assert lease.renew_lease(token=held.lease_token) is lease.LeaseStatus.HELD
            assert finish(held) is not None
        run.refresh_from_db()
        assert (run.state, run.verdict is not None) == (State.FINISHED, True)
        assert run.attempts.get().log_tail == "the end"
        assert Standing.objects.get().runs == (visibility == "public")
        readers = 1 if visibility == "private" else 2
        assert Notification.objects.count() == readers
        assert Delivery.objects.count() == readers + (visibility != "private")
        assert TrailEvent.objects.latest("number").action == "verdict.write"
        call_command("verify_trail", stdout=io.StringIO())

    def test_a_fault_gives_the_run_back_until_its_attempts_are_spent(self, role: str, run: Run, told: None) -> None:
        with be(role):
            for expected in (State.QUEUED, State.QUEUED, State.CRASHED):
                token = claim().lease_token
                assert token is not None
                assert lease.fail_attempt(token=token, reason="a fault", log_tail="x") == expected
        assert Notification.objects.exists()

    def test_a_lost_run_is_given_back(self, role: str, run: Run) -> None:
        with be(role):
            claim()
            assert lease.expire_leases_of("host:cpu-interpreter") == 1
            assert lease.reap_expired_leases() == 1
        run.refresh_from_db()
        assert run.state == State.QUEUED

    def test_a_cancelled_run_is_stopped(self, role: str, run: Run, people: People) -> None:
        with be(role):
            token = claim().lease_token
        cancel_run(run=run, user=people.alice)
        assert token is not None
        with be(role):
            assert lease.renew_lease(token=token) is lease.LeaseStatus.CANCELLED
            assert lease.fail_attempt(token=token, reason="Cancelled on request.") == State.CANCELLED

    def test_a_run_is_verified_again(self, role: str, run: Run) -> None:
        with be(role):
            finish(claim())
        queue_again(Run.objects.filter(pk=run.pk))
        with be(role):
            held = claim()
            assert held.lease_token is not None
            lease.finish_run(token=held.lease_token, verdict=reject(held))
        run.refresh_from_db()
        assert run.verdict is not None
        assert (run.verdict.number, run.verdict.outcome) == (2, "rejected")

    def test_the_real_worker_serves(self, role: str, submit: Submit, told: None, tmp_path: Path) -> None:
        parts = urlsplit(build_database_url())
        url = parts._replace(netloc=f"{role}@{parts.netloc.rpartition('@')[2]}").geturl()
        worker = RunningWorker(tmp_path, database=url)
        try:
            wait_for(lambda: len(worker.list_cluster()) >= 5, seconds=60, what="the cluster")
            runs = [wait_for_end(submit(source=f"# do: {order}\n")) for order in ("accept", "reject", "exit")]
        finally:
            worker.stop()
        assert [run.state for run in runs] == [State.FINISHED, State.FINISHED, State.CRASHED], worker.read_log()
        assert "permission denied" not in worker.read_log()
        assert "row-level security" not in worker.read_log()
        assert "can read the sessions" not in worker.read_log()


FORBIDDEN_TO_READ = (
    "SELECT * FROM django_session",
    "SELECT password FROM accounts_user",
    "SELECT email FROM accounts_user",
    "SELECT * FROM accounts_user",
    "SELECT digest FROM accounts_apitoken",
    "SELECT * FROM accounts_invitation",
    "SELECT * FROM account_emailaddress",
    "SELECT * FROM mfa_authenticator",
    "SELECT * FROM usersessions_usersession",
    "SELECT secret FROM notifications_webhook",
    "SELECT text FROM notifications_notification",
    "SELECT payload FROM notifications_delivery",
    "SELECT before, after, address FROM review_trailevent",
    "SELECT reason FROM review_decision",
    "SELECT reason FROM review_appeal",
    "SELECT log_tail FROM runs_attempt",
    "SELECT * FROM django_q_task",
)
FORBIDDEN_TO_WRITE = (
    "UPDATE accounts_user SET is_superuser = true",
    "UPDATE accounts_membership SET role = 'owner'",
    "INSERT INTO django_session VALUES ('key', 'data', now())",
    "INSERT INTO accounts_membership (role, team_id, user_id) SELECT 'owner', team_id, user_id FROM accounts_membership",
    "UPDATE review_trailevent SET actor_name = 'nobody'",
    "DELETE FROM review_trailevent",
    "TRUNCATE review_trailevent",
    "ALTER TABLE review_trailevent DISABLE TRIGGER ALL",
    "DROP TRIGGER review_trailevent_no_update ON review_trailevent",
    "UPDATE runs_verdict SET outcome = 'passed'",
    "DELETE FROM runs_verdict",
    "UPDATE runs_run SET visibility = 'public'",
    "UPDATE runs_run SET source_released = true",
    "UPDATE runs_run SET team_id = 1",
    "UPDATE runs_run SET priority = 100, max_attempts = 100",
    "DELETE FROM runs_run",
    "UPDATE runs_source SET text = ''",
    "UPDATE catalog_environment SET title = ''",
    "UPDATE notifications_webhook SET url = 'https://evil.example/'",
    "INSERT INTO notifications_webhook (team_id, url, secret, active, created_at) VALUES (1, 'x', 'y', true, now())",
    "CREATE TABLE public.mine (n int)",
    "CREATE FUNCTION public.lower(text) RETURNS text LANGUAGE sql AS 'SELECT 1'",
    "ALTER TABLE runs_run DISABLE ROW LEVEL SECURITY",
    "SET ROLE postgres",
)


class TestWhatItCannotDo:
    @pytest.mark.parametrize("sql", FORBIDDEN_TO_READ + FORBIDDEN_TO_WRITE)
    def test_it_is_refused(self, role: str, run: Run, people: People, sql: str) -> None:
        create_token(user=people.alice, name="t", scope="read", days=7)
        with be(role), pytest.raises(ProgrammingError, match=r"permission denied|must be owner"), transaction.atomic():
            execute(sql)

    def test_what_has_ended_stays(self, role: str, submit: Submit) -> None:
        ended, held = submit(visibility="public"), submit()
        with be(role):
            finish(claim())
            claim()
            columns = (
                "outcome, primary_failure, failures, verifier_version, body, digest, attempt_id, created_at, run_id"
            )
            with pytest.raises(DatabaseError, match="row-level security"), transaction.atomic():
                execute(
                    f"INSERT INTO runs_verdict (number, reason, {columns}) SELECT 2, 'mine', {columns} FROM runs_verdict"
                )
            with pytest.raises(DatabaseError, match="row-level security"), transaction.atomic():
                execute(
                    "INSERT INTO runs_attempt (run_id, number, worker, started_at, outcome, reason, log_tail) "
                    "VALUES (%s, 2, 'me', now(), '', '', '')",
                    ended.pk,
                )
            assert execute("UPDATE runs_run SET state = 'queued' WHERE id = %s", ended.pk) == 0
            assert execute("UPDATE runs_attempt SET outcome = 'cancelled' WHERE run_id = %s", ended.pk) == 0
            assert execute("UPDATE runs_run SET worker = 'me' WHERE id = %s", held.pk) == 1

    def test_a_run_points_to_no_verdict_of_another(self, role: str, submit: Submit) -> None:
        first, second = submit(visibility="public"), submit()
        with be(role):
            verdict = finish(claim())
            claim()
            assert verdict is not None
            with pytest.raises(DatabaseError, match="row-level security"), transaction.atomic():
                execute("UPDATE runs_run SET verdict_id = %s WHERE id = %s", verdict.pk, second.pk)
        first.refresh_from_db()
        assert first.verdict == verdict

    def test_it_decides_in_nobodys_name(self, role: str, run: Run, people: People) -> None:
        with be(role):
            token = claim().lease_token
            assert token is not None
            verdict = lease.finish_run(token=token, verdict=judge(run))
        assert verdict is not None
        queue_again(Run.objects.filter(pk=run.pk))
        columns = "outcome, primary_failure, failures, verifier_version, body, digest, attempt_id, created_at, run_id"
        with be(role):
            claim()
            with pytest.raises(DatabaseError, match="row-level security"), transaction.atomic():
                execute(
                    f"INSERT INTO runs_verdict (decided_by_id, number, reason, {columns}) "
                    f"SELECT %s, 2, 'mine', {columns} FROM runs_verdict",
                    people.admin.pk,
                )

    @pytest.mark.parametrize(
        "changes",
        [{"actor_id": "{admin}"}, {"action": "'review.overturn'"}, {"number": "9"}, {"previous_hash": "'x'"}],
        ids=lambda changes: next(iter(changes)),
    )
    def test_it_writes_only_verdicts_into_the_trail(
        self, role: str, run: Run, people: People, changes: dict[str, str]
    ) -> None:
        last = TrailEvent.objects.latest("number")
        row = {
            "number": str(last.number + 1),
            "at": "now()",
            "actor_id": "NULL",
            "actor_name": "'host'",
            "action": "'verdict.write'",
            "subject_type": "'runs.run'",
            "subject_id": "'1'",
            "before": "'null'",
            "after": "'null'",
            "request_id": "''",
            "address": "''",
            "previous_hash": f"'{last.hash}'",
            "hash": "'h'",
        }

        def append(values: dict[str, str]) -> None:
            execute(f"INSERT INTO review_trailevent ({', '.join(values)}) VALUES ({', '.join(values.values())})")

        changed = {name: value.format(admin=people.admin.pk) for name, value in changes.items()}
        with be(role):
            with pytest.raises(DatabaseError, match="row-level security"), transaction.atomic():
                append(row | changed)
            append(row)

    def test_it_reads_no_verdict_of_a_private_run_that_has_ended(self, role: str, submit: Submit) -> None:
        submit()
        with be(role):
            finish(claim())
            assert execute("SELECT * FROM runs_verdict") == 0

    def test_it_reads_no_source_that_waits_for_nobody(self, role: str, submit: Submit) -> None:
        submit(source="secret = 1\n")
        with be(role):
            assert execute("SELECT text FROM runs_source") == 1
            finish(claim())
            assert execute("SELECT text FROM runs_source") == 0


class TestGranting:
    def test_it_can_be_done_again(self, role: str, run: Run) -> None:
        call_command("grant_worker", role, stdout=io.StringIO())
        with be(role):
            assert finish(claim()) is not None

    def test_two_hosts_have_two_roles(self, role: str, run: Run) -> None:
        drop_role("kernelquest_other")
        execute("CREATE ROLE kernelquest_other LOGIN")
        try:
            call_command("grant_worker", "kernelquest_other", stdout=io.StringIO())
            for name in (role, "kernelquest_other"):
                with be(name):
                    assert execute("SELECT id FROM runs_run") == 1
        finally:
            drop_role("kernelquest_other")

    def test_what_was_granted_by_hand_is_taken_back(self, role: str) -> None:
        execute(f"GRANT ALL ON django_session TO {role}")
        with be(role):
            assert can_read_sessions()
        call_command("grant_worker", role, stdout=io.StringIO())
        with be(role):
            assert not can_read_sessions()

    @pytest.mark.parametrize(
        ("name", "words"),
        [
            ("nobody", "CREATE ROLE nobody LOGIN"),
            ('x"; DROP TABLE runs_run; --', "small letters"),
            ("postgres", "can do more than any grant says"),
        ],
    )
    def test_a_role_that_is_none_or_too_mighty_is_refused(self, db: None, name: str, words: str) -> None:
        with pytest.raises(CommandError, match=words):
            call_command("grant_worker", name)

    def test_only_who_owns_the_tables_grants(self, role: str) -> None:
        with be(role), pytest.raises(CommandError, match="the web's own DATABASE_URL"):
            call_command("grant_worker", role)
