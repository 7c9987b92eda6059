from __future__ import annotations

import logging
import os
import signal
from argparse import ArgumentParser, ArgumentTypeError
from typing import Any

from django.conf import settings
from django.core.checks import Tags
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError

from portal.catalog.models import Environment
from portal.ops.host import HostUnfit, check_host
from portal.ops.supervisor import Supervisor, WorkerBusy
from portal.ops.worker_role import can_read_sessions
from portal.runs.dispatch import GPU_VARIABLE

logger = logging.getLogger(__name__)


def parse_gpu(text: str) -> str:
    """Return the number of a GPU as it was given. Raises ArgumentTypeError."""
    if not text.isdecimal():
        raise ArgumentTypeError(f"{text!r} is no number of a GPU such as 0")
    return text


def check_settings() -> None:
    """Raise CommandError when this process may hold the web's signing key."""
    if not settings.FOR_WORKER:
        raise CommandError("A worker runs with settings of its own. Start it with --settings portal.worker_settings.")


def check_environment(slug: str) -> None:
    """Raise CommandError when the database cannot be read or knows no such environment."""
    try:
        known = list(Environment.objects.values_list("slug", flat=True))
    except DatabaseError as error:
        raise CommandError(f"The database cannot be read: {error}. Run migrate and load_tasks first.") from error
    if slug not in known:
        raise CommandError(f"No environment {slug!r}. Known: {', '.join(known) or 'none; run load_tasks first'}.")


class Command(BaseCommand):
    help = "Judge the runs of one environment on this host, until Ctrl-C or SIGTERM."
    # A worker serves no pages: the checks of views, templates and forms are the web server's.
    requires_system_checks = (Tags.database, Tags.models)

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--environment", default=settings.SERVED_ENVIRONMENTS[0], help="default: %(default)s")
        parser.add_argument(
            "--gpu",
            type=parse_gpu,
            help="on a host with several: its number in PCI order, as nvidia-smi has it",
        )

    def handle(self, *_: Any, environment: str, gpu: str | None, **__: Any) -> None:
        check_settings()
        if gpu:
            # For this process and all that it starts: one worker, its cluster and its verifier see one GPU.
            os.environ |= {GPU_VARIABLE: gpu, "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": gpu}
        check_environment(environment)
        try:
            check_host(environment)
        except HostUnfit as error:
            raise CommandError(str(error)) from error
        if can_read_sessions():
            logger.warning(
                "This database role can read the sessions of the web. Give workers one of their own: SECURITY.md."
            )
        supervisor = Supervisor(environment)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, supervisor.request_stop)
        try:
            supervisor.run()
        except WorkerBusy as error:
            raise CommandError(str(error)) from error
