from __future__ import annotations

import os
import signal
from typing import Any

from django_q.management.commands.qcluster import Command as QClusterCommand

from portal.ops.processes import follow_parent


def tie_descendants() -> None:
    """Let every process forked from here, and from those, be killed when its parent dies."""
    parent = os.getpid()

    def tie() -> None:
        nonlocal parent
        follow_parent(parent, signal.SIGKILL)
        parent = os.getpid()

    os.register_at_fork(after_in_child=tie)


class Command(QClusterCommand):
    help = "The django-q2 cluster that `manage.py worker` starts and watches over. Do not start it by hand."
    # The worker has checked already.
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        # django-q2 itself leaves its other processes at work when one of them is killed.
        tie_descendants()
        super().handle(*args, **options)
