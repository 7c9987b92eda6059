"""Tables whose rows the database itself refuses to change: triggers for PostgreSQL and SQLite."""

from __future__ import annotations

from collections.abc import Iterator

from django.db.backends.base.base import BaseDatabaseWrapper

_REFUSAL = "rows of this table are only ever added"

_POSTGRESQL = f"""
CREATE OR REPLACE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION '%: {_REFUSAL}', TG_TABLE_NAME; END $$
"""


def name_triggers(table: str, vendor: str) -> list[str]:
    """Return the names of the triggers that guard `table`."""
    last = "replace" if vendor == "sqlite" else "truncate"
    return [f"{table}_no_{deed}" for deed in ("update", "delete", last)]


def list_statements(table: str, vendor: str, unique: tuple[str, ...]) -> Iterator[str]:
    """Give the SQL that guards `table`; `unique` are its columns whose values may not come twice."""
    update, delete, last = name_triggers(table, vendor)
    if vendor == "postgresql":
        yield _POSTGRESQL
        for name, deed in ((update, "UPDATE"), (delete, "DELETE")):
            yield f'CREATE TRIGGER {name} BEFORE {deed} ON "{table}" FOR EACH ROW EXECUTE FUNCTION refuse_change()'
        yield f'CREATE TRIGGER {last} BEFORE TRUNCATE ON "{table}" FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()'
        return
    refuse = f"BEGIN SELECT RAISE(ABORT, '{table}: {_REFUSAL}'); END"
    for name, deed in ((update, "UPDATE"), (delete, "DELETE")):
        yield f'CREATE TRIGGER {name} BEFORE {deed} ON "{table}" {refuse}'
    # INSERT OR REPLACE deletes rows without a word to the trigger of DELETE.
    same = " OR ".join(f'"{column}" = NEW."{column}"' for column in unique)
    yield (
        f'CREATE TRIGGER {last} BEFORE INSERT ON "{table}" WHEN EXISTS (SELECT 1 FROM "{table}" WHERE {same}) {refuse}'  # noqa: S608  names of our own
    )


def guard_table(connection: BaseDatabaseWrapper, table: str, unique: tuple[str, ...]) -> None:
    """Let the database refuse every change of a row of `table`."""
    with connection.cursor() as cursor:
        for statement in list_statements(table, connection.vendor, unique):
            cursor.execute(statement)


def release_table(connection: BaseDatabaseWrapper, table: str) -> None:
    """Let rows of `table` be changed again, as a migration of the table or the cleaning of a test needs it."""
    place = f' ON "{table}"' if connection.vendor == "postgresql" else ""
    with connection.cursor() as cursor:
        for name in name_triggers(table, connection.vendor):
            cursor.execute(f"DROP TRIGGER IF EXISTS {name}{place}")


def list_missing(connection: BaseDatabaseWrapper, table: str) -> list[str]:
    """Return the triggers of `table` that are not there, or are switched off."""
    query = (
        "SELECT tgname FROM pg_trigger WHERE tgrelid = %s::regclass AND tgenabled IN ('O', 'A')"
        if connection.vendor == "postgresql"
        else "SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = %s"
    )
    with connection.cursor() as cursor:
        cursor.execute(query, [table])
        found = {name for (name,) in cursor.fetchall()}
    return [name for name in name_triggers(table, connection.vendor) if name not in found]
