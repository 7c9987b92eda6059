from __future__ import annotations

import signal
from argparse import ArgumentParser
from threading import Event
from typing import Any

from django.core.management.base import BaseCommand
from django.db import InterfaceError, OperationalError, connection

from portal.notifications.delivery import deliver_next

LOOK_SECONDS = 2


class Command(BaseCommand):
    help = "Send mail and call webhooks as they come due, until Ctrl-C or SIGTERM. Run it beside the web server."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--once", action="store_true", help="send what is due now, then end")

    def handle(self, *_: Any, once: bool, **__: Any) -> None:
        stop = Event()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: stop.set())
        while not stop.is_set():
            try:
                found = deliver_next()
            except (OperationalError, InterfaceError):
                # The database is away for a moment.
                connection.close()
                found = False
            if not found and once:
                return
            stop.wait(0 if found else LOOK_SECONDS)
