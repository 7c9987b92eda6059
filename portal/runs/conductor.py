"""Conducts one claimed run: starts the verifier, follows it, keeps the lease, and settles what came of it."""

from __future__ import annotations

import contextlib
import logging
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import InterfaceError, OperationalError, connection

from portal.runs.dispatch import name_post
from portal.runs.lease import (
    LeaseLost,
    LeaseStatus,
    VerdictMismatch,
    begin_run,
    fail_attempt,
    finish_run,
    record_progress,
    renew_lease,
)
from portal.runs.models import Run
from portal.runs.verification import (
    GateEvent,
    ProgressEvent,
    TimingEvent,
    VerifierFault,
    VerifierProcess,
    WaitingEvent,
)

logger = logging.getLogger(__name__)

WATCH_SECONDS = 0.5


class RunCancelled(Exception):
    """Somebody asked for the run to be stopped."""


class Follower:
    """Follows one verifier on behalf of a lease. Raises as soon as it should be stopped."""

    def __init__(self, token: uuid.UUID, process: VerifierProcess, timeout_seconds: float) -> None:
        self._token, self._process = token, process
        self._progress: dict[str, Any] = {}
        self._gate = ""
        self._renewed_at = time.monotonic()
        self._timeout_seconds = timeout_seconds
        self._deadline = self._renewed_at + timeout_seconds

    def follow(self) -> None:
        """Return when the verifier has ended. Raises LeaseLost, RunCancelled and VerifierFault."""
        while not self._process.has_ended():
            self._record(self._process.read_events(WATCH_SECONDS))
            self._keep_lease()
            if time.monotonic() > self._deadline:
                raise VerifierFault(f"The verifier did not end within {self._timeout_seconds:g} seconds.")
        self._record(self._process.read_events(0))

    def _record(self, events: list[ProgressEvent]) -> None:
        if not events:
            return
        for event in events:
            self._note(event)
        try:
            record_progress(token=self._token, current_gate=self._gate, progress=self._progress)
        except (OperationalError, InterfaceError):
            # The next event tells it too.
            connection.close()

    def _note(self, event: ProgressEvent) -> None:
        at = round(event.t, 3)
        if self._progress.pop("waiting", None):
            self._deadline = time.monotonic() + self._timeout_seconds
        match event:
            case GateEvent():
                self._gate = event.gate
                self._progress[event.gate] = {"state": event.state, "t": at}
            case TimingEvent():
                self._progress["timing"] = {"round": event.round, "of": event.of, "t": at}
            case WaitingEvent():
                self._progress["waiting"] = {"for": event.awaited, "t": at}
                self._deadline = time.monotonic() + settings.GPU_WAIT_SECONDS

    def _keep_lease(self) -> None:
        age = time.monotonic() - self._renewed_at
        if age < settings.LEASE_RENEWAL_SECONDS:
            return
        try:
            status = renew_lease(token=self._token)
        except (OperationalError, InterfaceError):
            # A database that is away for a moment does not end the run; the end of the lease does.
            connection.close()
            if age > settings.LEASE_SECONDS:
                raise LeaseLost from None
            return
        if status is LeaseStatus.LOST:
            raise LeaseLost
        if status is LeaseStatus.CANCELLED:
            raise RunCancelled
        self._renewed_at = time.monotonic()


def build_command(run: Run, path: Path) -> list[str]:
    """Return the command that judges the submission at `path`."""
    return [
        *settings.VERIFIER_COMMAND,
        *("verify", run.task_id, str(path), "--environment", run.environment_id),
        *("--json", "--progress", "jsonl"),
    ]


def choose_timeout(run: Run) -> float:
    """Return how many seconds one verification of `run` may take."""
    timed = run.environment.timed
    return settings.TIMED_VERIFICATION_TIMEOUT_SECONDS if timed else settings.VERIFICATION_TIMEOUT_SECONDS


def conduct_run(run: Run) -> None:
    """Judge a run that this process has just claimed, and write what came of it, once."""
    token = run.lease_token
    if token is None:
        raise ValueError(f"run {run} is not leased")
    try:
        _judge(token, run)
    except LeaseLost:
        logger.warning("Run %s was taken over; nothing is written.", run)


def _judge(token: uuid.UUID, run: Run) -> None:
    log_tail = ""
    try:
        with _prepare(run) as process:
            try:
                begin_run(token=token)
                Follower(token, process, choose_timeout(run)).follow()
                verdict = process.parse_verdict()
            finally:
                log_tail = process.log_tail
        finish_run(token=token, verdict=verdict, log_tail=log_tail)
    except (VerifierFault, VerdictMismatch, OSError) as fault:
        logger.warning("Run %s: %s", run, fault)
        fail_attempt(token=token, reason=str(fault), log_tail=log_tail)
    except RunCancelled:
        fail_attempt(token=token, reason="Cancelled on request.", log_tail=log_tail)


@contextlib.contextmanager
def _prepare(run: Run) -> Iterator[VerifierProcess]:
    """Start the verifier on the submission, in a folder that goes when it ends."""
    parent = settings.WORK_DIR / name_post(run.environment_id)
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="run-", dir=parent) as folder:
        path = Path(folder) / "solution.py"
        path.write_bytes(run.source.text.encode())
        with VerifierProcess(build_command(run, path), directory=settings.BASE_DIR) as process:
            yield process
