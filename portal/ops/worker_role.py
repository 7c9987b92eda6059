"""What a worker may do in PostgreSQL: column by column, and row by row.

A worker runs beside submissions, so its host counts as the first to be captured. Its database role reads what it must
judge and writes what came of it. It cannot read accounts, sessions, tokens or other people's sources, and it cannot
change what has ended. The owner of the tables, who is the web, is bound by none of this.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from django.db import connection, transaction

_NAME = re.compile(r"[a-z_][a-z0-9_]{0,39}")
_ALL = "SELECT, INSERT, UPDATE, DELETE"
_HELD = "('leased', 'running')"
_OPEN = "('queued', 'leased', 'running')"
_FIRST_HASH = "0" * 64


class RoleRefused(Exception):
    """A role cannot be a worker's; the message says why and what to do."""


@dataclass(frozen=True)
class Grant:
    """What may be done with one table: privileges as GRANT has them, and conditions on rows by command."""

    table: str
    privileges: tuple[str, ...]
    rows: dict[str, str] = field(default_factory=dict)


def _run_in(states: str, run: str) -> str:
    return f"EXISTS (SELECT 1 FROM runs_run r WHERE r.id = {run} AND r.state IN {states})"


_RUN_COLUMNS = (
    "state, attempt, lease_token, lease_expires_at, worker, current_gate, progress, started_at, finished_at, verdict_id"
)
GRANTS = (
    # Everybody reads the catalogue; what a task hides is not in it.
    Grant("catalog_environment", ("SELECT",)),
    Grant("catalog_task", ("SELECT",)),
    Grant("catalog_certificate", ("SELECT",)),
    Grant("catalog_release", ("SELECT",)),
    Grant("catalog_releasedtask", ("SELECT",)),
    Grant("systems_system", ("SELECT",)),
    Grant("accounts_team", ("SELECT",)),
    Grant("accounts_membership", ("SELECT",)),
    Grant("accounts_user", ("SELECT (id, is_active)",)),
    Grant("ops_worker", (_ALL,)),
    # Its own wake-ups. What failed is not kept: a row of `django_q_task` would be unpickled by whoever reads it.
    Grant("django_q_ormq", (_ALL,)),
    # What has ended stays as it is, and a verdict that a run points to is one of its own.
    Grant(
        "runs_run",
        ("SELECT", f"UPDATE ({_RUN_COLUMNS})"),
        {
            "SELECT USING": "true",
            "UPDATE USING": f"state IN {_OPEN}",
            "UPDATE WITH CHECK": "verdict_id IS NULL OR EXISTS "
            "(SELECT 1 FROM runs_verdict v WHERE v.id = runs_run.verdict_id AND v.run_id = runs_run.id)",
        },
    ),
    # A source can be read while it waits to be judged.
    Grant(
        "runs_source",
        ("SELECT",),
        {
            "SELECT USING": f"EXISTS (SELECT 1 FROM runs_run r WHERE r.source_id = runs_source.sha256 AND r.state IN {_OPEN})"
        },
    ),
    Grant(
        "runs_attempt",
        (
            "SELECT (id, run_id, number, worker, started_at, ended_at, outcome)",
            "INSERT",
            "UPDATE (outcome, reason, log_tail, ended_at)",
        ),
        {
            "SELECT USING": "true",
            "INSERT WITH CHECK": _run_in(_HELD, "runs_attempt.run_id"),
            "UPDATE USING": "outcome = ''",
            "UPDATE WITH CHECK": "true",
        },
    ),
    Grant(
        "runs_verdict",
        ("SELECT", "INSERT"),
        {
            "SELECT USING": "EXISTS (SELECT 1 FROM runs_run r WHERE r.id = runs_verdict.run_id "
            f"AND (r.visibility = 'public' OR r.state IN {_OPEN}))",
            "INSERT WITH CHECK": f"decided_by_id IS NULL AND {_run_in(_HELD, 'runs_verdict.run_id')}",
        },
    ),
    Grant(
        "runs_gateresult",
        ("SELECT (id)", "INSERT"),
        {
            "SELECT USING": "true",
            "INSERT WITH CHECK": "EXISTS (SELECT 1 FROM runs_verdict v JOIN runs_run r ON r.id = v.run_id "
            f"WHERE v.id = runs_gateresult.verdict_id AND r.state IN {_HELD})",
        },
    ),
    Grant("standings_standing", (_ALL,)),
    Grant("standings_taskstanding", (_ALL,)),
    Grant("notifications_preference", ("SELECT",)),
    Grant("notifications_webhook", ("SELECT (id, team_id, active)",)),
    Grant(
        "notifications_notification",
        ("SELECT (id)", "INSERT"),
        {"SELECT USING": "true", "INSERT WITH CHECK": "kind = 'verdict'"},
    ),
    Grant("notifications_delivery", ("SELECT (id, due_at)", "INSERT")),
    # It appends verdicts, each after the event before it, in nobody's name.
    Grant(
        "review_trailevent",
        ("SELECT (number, hash)", "INSERT"),
        {
            "SELECT USING": "true",
            "INSERT WITH CHECK": "actor_id IS NULL AND subject_type = 'runs.run' "
            "AND action IN ('verdict.write', 'verdict.revise') "
            "AND number = COALESCE((SELECT max(e.number) FROM review_trailevent e), 0) + 1 "
            "AND previous_hash = COALESCE("
            f"(SELECT e.hash FROM review_trailevent e ORDER BY e.number DESC LIMIT 1), '{_FIRST_HASH}')",
        },
    ),
)


def check_name(role: str) -> None:
    """Raise RoleRefused when `role` is no plain name."""
    if not _NAME.fullmatch(role):
        raise RoleRefused("Name the role with small letters, digits and underscores, such as kernelquest_worker.")


def check_role(role: str) -> None:
    """Raise RoleRefused unless `role` exists, has no powers of its own, and the tables belong to whoever grants."""
    check_name(role)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT rolsuper OR rolbypassrls OR rolcreaterole OR rolcreatedb OR pg_has_role(oid, current_user, 'MEMBER')"
            " FROM pg_roles WHERE rolname = %s",
            [role],
        )
        found = cursor.fetchone()
        cursor.execute(
            "SELECT count(*) FROM pg_class WHERE relname = ANY(%s) AND pg_has_role(current_user, relowner, 'USAGE')",
            [[grant.table for grant in GRANTS]],
        )
        owned = cursor.fetchone()[0]
    if owned != len(GRANTS):
        raise RoleRefused("The tables belong to somebody else. Grant with the web's own DATABASE_URL, after migrate.")
    if found is None:
        raise RoleRefused(f"There is no role {role}. Make it first: CREATE ROLE {role} LOGIN PASSWORD '...'")
    if found[0]:
        raise RoleRefused(f"The role {role} can do more than any grant says. Make another one for workers.")


def list_statements(role: str) -> Iterator[str]:
    """Give the SQL that takes everything from `role` and grants what a worker needs."""
    yield "REVOKE CREATE ON SCHEMA public FROM PUBLIC"
    for kind in ("TABLES", "SEQUENCES"):
        yield f'REVOKE ALL ON ALL {kind} IN SCHEMA public FROM "{role}"'
    yield f'GRANT USAGE ON SCHEMA public TO "{role}"'
    for grant in GRANTS:
        for privilege in grant.privileges:
            yield f'GRANT {privilege} ON "{grant.table}" TO "{role}"'
        if grant.rows:
            yield f'ALTER TABLE "{grant.table}" ENABLE ROW LEVEL SECURITY'
        for command in ("SELECT", "INSERT", "UPDATE"):
            clauses = [
                f"{clause} ({condition})"
                for clause in ("USING", "WITH CHECK")
                if (condition := grant.rows.get(f"{command} {clause}"))
            ]
            name = f"{role}_{command.lower()}"
            yield f'DROP POLICY IF EXISTS "{name}" ON "{grant.table}"'
            if clauses:
                yield f'CREATE POLICY "{name}" ON "{grant.table}" FOR {command} TO "{role}" {" ".join(clauses)}'


@transaction.atomic
def grant_worker(*, role: str) -> None:
    """Let the PostgreSQL role `role` do what a worker needs, and nothing else. Raises RoleRefused."""
    if connection.vendor != "postgresql":
        raise RoleRefused("Roles are PostgreSQL's. On SQLite whoever opens the file may do everything.")
    check_role(role)
    with connection.cursor() as cursor:
        for statement in list_statements(role):
            cursor.execute(statement)


def can_read_sessions() -> bool:
    """Return whether this process could take over the session of anybody."""
    if connection.vendor != "postgresql":
        return False
    with connection.cursor() as cursor:
        cursor.execute("SELECT has_table_privilege('django_session', 'SELECT')")
        return bool(cursor.fetchone()[0])
