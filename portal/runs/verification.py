"""The verifier as a child process: one submission in, progress events and a verdict out.

The portal reads nothing but the two pipes, with a cap on each, and never looks at the submission itself.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from io import BufferedReader
from pathlib import Path
from typing import IO, Annotated, Literal, Self, cast

from pydantic import BaseModel, Field, PositiveInt, TypeAdapter, ValidationError

from portal.ops.processes import follow_parent
from verifier.verdict import Gate, Verdict

VERDICT_CAP = 4 * 1024 * 1024
LINE_CAP = 4_096
LOG_LINES = 100
PIPE_CLOSE_SECONDS = 5
_PASSED_ON = frozenset(
    {
        "PATH",
        "HOME",
        "LANG",
        "LC_ALL",
        "TZ",
        "TMPDIR",
        "LD_LIBRARY_PATH",
        "CUDA_VISIBLE_DEVICES",
        "CUDA_DEVICE_ORDER",
        "CUDA_HOME",
    }
)


class VerifierFault(Exception):
    """The verifier gave no verdict. The reason is on our side, never the submission's."""


class GateEvent(BaseModel):
    """A gate has started or ended, `t` seconds after the start."""

    t: float
    event: Literal["gate"]
    gate: Gate
    state: Literal["started", "passed", "failed", "skipped", "not_timed"]


class TimingEvent(BaseModel):
    """A round of timed calls has ended. `round` exceeds `of` when the planned rounds did not settle it."""

    t: float
    event: Literal["timing"]
    round: PositiveInt
    of: PositiveInt


class WaitingEvent(BaseModel):
    """The verifier waits for something that somebody else uses; any other event says that it has it."""

    t: float
    event: Literal["waiting"]
    awaited: str = Field(alias="for", max_length=60)


ProgressEvent = Annotated[GateEvent | TimingEvent | WaitingEvent, Field(discriminator="event")]
_EVENT: TypeAdapter[ProgressEvent] = TypeAdapter(ProgressEvent)


class Refusal(BaseModel):
    """Why the verifier could not even begin, and what to do about it."""

    message: str
    fix: str = ""


class RefusalReport(BaseModel):
    """What the verifier prints in place of a verdict."""

    error: Refusal


def scrub_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that the verifier may see: no database, no secret key."""
    return {name: value for name, value in environment.items() if name in _PASSED_ON or name.startswith("KQ_")}


def parse_event(line: bytes) -> ProgressEvent | None:
    """Return the event in `line`, or None when it holds none."""
    try:
        return _EVENT.validate_json(line)
    except ValidationError:
        return None


class VerifierProcess:
    """A running verifier. Leaving the context kills its whole process group, whatever happened."""

    def __init__(self, command: list[str], *, directory: Path) -> None:
        self._command, self._directory = command, directory
        self._events: queue.Queue[ProgressEvent] = queue.Queue(maxsize=1_000)
        self._output = bytearray()
        self._log: deque[bytes] = deque(maxlen=LOG_LINES)

    def __enter__(self) -> Self:
        try:
            self._process = subprocess.Popen(
                self._command,
                cwd=self._directory,
                env=scrub_environment(os.environ),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                # Safe: the readers, the only other threads of this process, do not exist yet.
                preexec_fn=partial(follow_parent, os.getpid(), signal.SIGKILL),  # noqa: PLW1509
            )
        except OSError as error:
            raise VerifierFault(f"The verifier could not be started: {error}") from error
        self._readers = [self._start_reader(self._read_output), self._start_reader(self._read_progress)]
        return self

    def __exit__(self, *_: object) -> None:
        self._end_group()
        self._process.wait()
        for pipe in (self._process.stdout, self._process.stderr):
            cast(IO[bytes], pipe).close()

    def _start_reader(self, read: Callable[[], None]) -> threading.Thread:
        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        return reader

    def _end_group(self) -> None:
        # The verifier is not reaped before, so its number cannot belong to anybody else.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        for reader in self._readers:
            reader.join(PIPE_CLOSE_SECONDS)

    def _read_output(self) -> None:
        pipe = cast(BufferedReader, self._process.stdout)
        while len(self._output) <= VERDICT_CAP and (chunk := pipe.read1(65_536)):
            self._output += chunk

    def _read_progress(self) -> None:
        pipe = cast(BufferedReader, self._process.stderr)
        while line := pipe.readline(LINE_CAP):
            event = parse_event(line)
            if event is None:
                self._log.append(line)
                continue
            with contextlib.suppress(queue.Full):
                self._events.put_nowait(event)

    @property
    def log_tail(self) -> str:
        """The last lines of standard error that are no progress events; hostile text."""
        return b"".join(self._log).decode("utf-8", "replace")

    def read_events(self, seconds: float) -> list[ProgressEvent]:
        """Return the events so far; wait at most `seconds` for the first or for the verifier's end."""
        events: list[ProgressEvent] = []
        deadline = time.monotonic() + seconds
        while not events and not self.has_ended() and time.monotonic() < deadline:
            with contextlib.suppress(queue.Empty):
                events.append(self._events.get(timeout=0.05))
        with contextlib.suppress(queue.Empty):
            while True:
                events.append(self._events.get_nowait())
        return events

    def has_ended(self) -> bool:
        """Return whether the verifier has ended, or has written more than it may."""
        return self._peek_ending() is not None or len(self._output) > VERDICT_CAP

    def _peek_ending(self) -> os.waitid_result | None:
        return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)

    def parse_verdict(self) -> Verdict:
        """Return the verdict of a verifier that has ended. Raises VerifierFault when it gave none."""
        ending = self._peek_ending()
        self._end_group()
        if len(self._output) > VERDICT_CAP:
            raise VerifierFault(f"The verifier wrote more than {VERDICT_CAP:,} bytes.")
        try:
            return Verdict.model_validate_json(bytes(self._output))
        except ValidationError as error:
            reason = _read_refusal(bytes(self._output)) or _describe_error(error)
            raise VerifierFault(
                f"The verifier ended with {_describe_ending(ending)} and no valid verdict: {reason}"
            ) from error


def _read_refusal(output: bytes) -> str:
    """Return what a verifier said that could not begin, or an empty text when it said nothing of the kind."""
    try:
        refusal = RefusalReport.model_validate_json(output).error
    except ValidationError:
        return ""
    return f"{refusal.message} {refusal.fix}".strip()


def _describe_error(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc']))} {first['msg']}"


def _describe_ending(ending: os.waitid_result | None) -> str:
    if ending is None:
        return "no exit code"
    kind = "exit code" if ending.si_code == os.CLD_EXITED else "signal"
    return f"{kind} {ending.si_status}"
