"""Turns on one GPU among verifications of one process: many may work beside each other, timed calls run alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Turns:
    """A lock with two kinds of holders: any number `beside` each other, or one `alone`."""

    def __init__(self) -> None:
        self.condition = threading.Condition()
        self.working = 0
        self.waiting = 0
        self.taken = False

    @contextmanager
    def beside(self) -> Iterator[None]:
        """Work beside others, when nobody is alone or waits to be."""
        with self.condition:
            self.condition.wait_for(lambda: not self.taken and not self.waiting)
            self.working += 1
        try:
            yield
        finally:
            with self.condition:
                self.working -= 1
                self.condition.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Work while nobody else does."""
        with self.condition:
            self.waiting += 1
            try:
                self.condition.wait_for(lambda: not self.taken and not self.working)
            finally:
                self.waiting -= 1
            self.taken = True
        try:
            yield
        finally:
            with self.condition:
                self.taken = False
                self.condition.notify_all()
