"""Turns on one GPU among verifications of one process: many may work beside each other, timed calls run alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Turns:
    """A lock with two kinds of holders: any number `beside` each other, or one of them `alone` for a while."""

    def __init__(self) -> None:
        self.condition = threading.Condition()
        self.working = 0
        self.waiting = 0
        self.taken = False

    def join(self) -> None:
        """Wait until nobody is alone or waits to be, and work beside the others."""
        with self.condition:
            self.condition.wait_for(lambda: not self.taken and not self.waiting)
            self.working += 1

    def leave(self) -> None:
        """Work no longer."""
        with self.condition:
            self.working -= 1
            self.condition.notify_all()

    @contextmanager
    def beside(self) -> Iterator[None]:
        """Work beside others."""
        self.join()
        try:
            yield
        finally:
            self.leave()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Within `beside`: work while nobody else does. Afterwards this one waits to be beside the others again."""
        self.leave()
        try:
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
        finally:
            self.join()
