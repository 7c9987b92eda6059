"""Child processes that do not outlive their parent."""

from __future__ import annotations

import ctypes
import os
import signal

PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


def follow_parent(parent: int, number: int = signal.SIGTERM) -> None:
    """Send this process the signal `number` when the process `parent` dies. Call it first in a child."""
    _libc.prctl(PR_SET_PDEATHSIG, int(number))
    # The parent may have died before the kernel knew of the wish.
    if os.getppid() != parent:
        os.kill(os.getpid(), number)
