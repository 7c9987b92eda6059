"""Looks at processes from outside, and starts ones that work on the test's database."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from django.db import connection

Value = TypeVar("Value")

FAKE_VERIFIER = [sys.executable, "-m", "tests.portal.fake_verifier"]


def build_database_url() -> str:
    """Return the DATABASE_URL of the test database."""
    name = str(connection.settings_dict["NAME"])
    if connection.vendor == "sqlite":
        return f"sqlite:///{name}"
    return urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{name}").geturl()


def list_processes() -> Iterator[tuple[int, str, str]]:
    """Give number, state and command line of every process."""
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            continue
        yield int(folder.name), state, command


def find_processes(words: str) -> list[int]:
    """Return the living processes whose command line holds `words`."""
    return [number for number, state, command in list_processes() if words in command and state != "Z"]


def wait_for(look: Callable[[], Value], seconds: float = 30, what: str = "") -> Value:
    """Return what `look` gives as soon as it is true. Fails the test when that takes longer than `seconds`."""
    deadline = time.monotonic() + seconds
    while not (value := look()):
        if time.monotonic() > deadline:
            raise AssertionError(f"{what or look} did not come within {seconds} seconds")
        time.sleep(0.05)
    return value
