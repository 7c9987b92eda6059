"""Times GPU work by events, with the stream held back until all of it is queued, and after the L2 has been emptied.

While a call is being queued the stream waits for a word in host memory, so that neither Python nor the way between
two processes is inside the measured time. When the word comes, the flush runs, then the start event, the work and the
end event follow each other with nothing between them. The same object times the reference and the submission.
"""

from __future__ import annotations

import threading
from typing import NamedTuple

import torch

from verifier.gpu import driver

# Two L2 sizes, and at least what empties the largest L2 of the official GPU.
MINIMUM_FLUSH_BYTES = 192 << 20


class Reading(NamedTuple):
    """One timed call: milliseconds between the two events, and whether the stream had to run before all was queued."""

    milliseconds: float
    released_early: bool


class Stopwatch:
    """Times one call after another on a stream of its own."""

    def __init__(self, l2_bytes: int) -> None:
        """Allocate what flushing needs on the current GPU."""
        self.stream = torch.cuda.Stream()
        self.word = torch.zeros(1, dtype=torch.int32, pin_memory=True)
        self.ticket = 0
        self.early = False
        self.timer: threading.Timer | None = None
        self.written = torch.empty(max(MINIMUM_FLUSH_BYTES, 2 * l2_bytes) // 4, dtype=torch.int32, device="cuda")
        self.clean = torch.zeros_like(self.written)
        self.sum = torch.zeros((), dtype=torch.int64, device="cuda")
        self.start, self.end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        # The driver loads a kernel when it is first launched, and waits for the whole GPU to do so.
        with torch.cuda.stream(self.stream):
            self.flush()
        self.stream.synchronize()

    @property
    def flush_bytes(self) -> int:
        return self.written.numel() * self.written.element_size()

    @property
    def holding(self) -> bool:
        """Whether the stream waits."""
        return int(self.word[0]) < self.ticket

    def flush(self) -> None:
        """Write more than the L2 holds, then read as much clean memory: no input and no dirty line stays in it."""
        self.written.fill_(self.ticket)
        torch.sum(self.clean, dim=0, dtype=torch.int64, out=self.sum)

    def arm(self, *, cold: bool, longest_hold: float) -> None:
        """Hold the stream, queue the flush and the start event; after `longest_hold` seconds it runs anyway."""
        if cold:
            driver.reset_persisting_cache()
        self.ticket += 1
        self.early = False
        self.timer = threading.Timer(longest_hold, self.release_early)
        self.timer.daemon = True
        self.timer.start()
        driver.hold_stream(self.stream.cuda_stream, self.word.data_ptr(), self.ticket)
        if cold:
            self.flush()
        self.start.record(self.stream)

    def release_early(self) -> None:
        """Let the stream run although not all is queued: the work itself waits for a result."""
        if self.holding:
            self.early = True
            self.word[0] = self.ticket

    def stop(self) -> Reading:
        """Queue the end event, let the stream run, wait for the end and return the time."""
        self.end.record(self.stream)
        if self.timer is not None:
            self.timer.cancel()
        self.word[0] = self.ticket
        self.end.synchronize()
        return Reading(self.start.elapsed_time(self.end), self.early)
