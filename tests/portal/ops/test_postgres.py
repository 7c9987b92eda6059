from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.postgres import PostgresMissing, find_programs, main

QUERY = """
import sys, environ, psycopg
database = environ.Env().db_url("DATABASE_URL")
connection = psycopg.connect(user=database["USER"], dbname=database["NAME"], **database["OPTIONS"])
connection.execute("create table t (n int)")
print(database["OPTIONS"]["host"])
sys.exit(7)
"""


def test_a_command_is_needed() -> None:
    assert main([]) == main(["--"]) == main(["ls"]) == 2


def test_a_command_gets_a_server_that_is_gone_afterwards(capfd: pytest.CaptureFixture[str]) -> None:
    try:
        find_programs()
    except PostgresMissing as error:
        pytest.skip(str(error))
    assert main(["--", sys.executable, "-c", QUERY]) == 7
    folder = capfd.readouterr().out.strip().splitlines()[-1]
    assert not Path(folder).exists()
    listing = subprocess.run(["ps", "-eo", "args"], check=True, capture_output=True, text=True).stdout
    assert folder not in listing


def test_missing_programs_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.devnull)
    monkeypatch.setattr(Path, "glob", lambda *_: iter(()))
    with pytest.raises(PostgresMissing, match="Debian's package postgresql"):
        find_programs()
