from __future__ import annotations

import os
import signal
import threading
from argparse import ArgumentParser
from typing import Any

from django_q.management.commands.qcluster import Command as QClusterCommand


def end_with(lifeline: int) -> None:
    """Kill this process group as soon as the other end of the pipe `lifeline` closes."""
    os.read(lifeline, 1)
    os.killpg(os.getpgid(0), signal.SIGKILL)


class Command(QClusterCommand):  # type: ignore[misc]  # django-q2 ships no types
    help = "The django-q2 cluster that `manage.py worker` starts and watches over. Do not start it by hand."
    # The worker has checked already.
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--lifeline", type=int, required=True, help="a pipe that closes when the worker ends")

    def handle(self, *args: Any, lifeline: int, **options: Any) -> None:
        threading.Thread(target=end_with, args=(lifeline,), daemon=True).start()
        super().handle(*args, **options)
