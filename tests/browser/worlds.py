"""A portal with something on every page and nobody at work, and browsers of its people."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext

from tests.browser.conftest import ROOT, find_port, keep_running, manage, wait_for


@dataclass(frozen=True)
class Populated:
    """A portal that runs: where its pages are, and who has signed in."""

    address: str
    pages: dict[str, str]
    more: dict[str, str]
    sessions: dict[str, str]

    def open(self, browser: Browser, person: str = "", **options: Any) -> BrowserContext:
        """Return a browser of somebody, or of a visitor without an account."""
        context = browser.new_context(base_url=self.address, **options)
        if person:
            context.add_cookies([{"name": "sessionid", "value": self.sessions[person], "url": self.address}])
        return context


@contextmanager
def serve(folder: Path, *options: str) -> Iterator[Populated]:
    """Fill a database in `folder` (see `tests.portal.world`), and serve it until the block ends."""
    database = f"sqlite:///{folder / 'portal.sqlite3'}"
    variables = os.environ | {"PORTAL_VAR": str(folder), "DATABASE_URL": database, "PORTAL_DEBUG": "0"}
    manage(variables, "migrate", "--verbosity", "0")
    manage(variables, "collectstatic", "--no-input", "--verbosity", "0")
    manage(variables, "load_tasks")
    command = [sys.executable, "-m", "tests.portal.world", *options]
    made = subprocess.run(command, cwd=ROOT, env=variables, check=True, capture_output=True, text=True, timeout=120)
    address = f"127.0.0.1:{find_port()}"
    server = [sys.executable, "-m", "gunicorn", "portal.wsgi:application", "--bind", address, "--threads", "4"]
    log = folder / "server.log"
    with keep_running(variables, log, *server):
        wait_for(f"http://{address}", log)
        yield Populated(f"http://{address}", **json.loads(made.stdout))
