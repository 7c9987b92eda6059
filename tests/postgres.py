"""A throw-away PostgreSQL server from the system's own packages.

`python -m tests.postgres -- COMMAND ...` runs a command with DATABASE_URL pointing to it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

# Nothing here needs to outlive a power cut.
_OPTIONS = "-c listen_addresses='' -c fsync=off -c full_page_writes=off -c synchronous_commit=off"


class PostgresMissing(RuntimeError):
    """There is no PostgreSQL server program here."""


def find_programs() -> Path:
    """Return the folder with initdb and pg_ctl. Raises PostgresMissing."""
    found = shutil.which("pg_ctl")
    folders = [Path(found).resolve().parent] if found else []
    # Debian keeps them off PATH, by version.
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: int(folder.parent.name))
    for folder in reversed(folders):
        if (folder / "initdb").is_file():
            return folder
    raise PostgresMissing("No initdb found. Install Debian's package postgresql, or put PostgreSQL's bin on PATH.")


@contextmanager
def run_postgres() -> Iterator[str]:
    """Start a server on a socket in a private folder, and give its DATABASE_URL."""
    programs = find_programs()
    folder = Path(tempfile.mkdtemp(prefix="kernelquest-postgres-", dir="/tmp"))
    data, prefix = folder / "data", []
    if os.getuid() == 0:
        # The server refuses to run as root.
        shutil.chown(folder, "postgres")
        prefix = ["runuser", "-u", "postgres", "--"]

    def call(program: str, *arguments: str) -> None:
        command = [*prefix, str(programs / program), "-D", str(data), *arguments]
        subprocess.run(command, check=True, cwd="/", stdout=subprocess.DEVNULL)

    try:
        call("initdb", "-A", "trust", "-U", "postgres", "--no-sync", "-E", "UTF8", "--locale=C.UTF-8")
        options = f"{_OPTIONS} -c unix_socket_directories={folder}"
        call("pg_ctl", "-w", "-o", options, "-l", str(folder / "log"), "start")
        try:
            yield f"postgres://postgres@/postgres?host={quote(str(folder), safe='')}"
        finally:
            call("pg_ctl", "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main(arguments: list[str]) -> int:
    """Run the command after `--` beside a server, and return its exit code."""
    if len(arguments) < 2 or arguments[0] != "--":
        print("Usage: python -m tests.postgres -- COMMAND ...", file=sys.stderr)  # noqa: T201  a command's usage
        return 2
    with run_postgres() as url:
        return subprocess.run(arguments[1:], env={**os.environ, "DATABASE_URL": url}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
