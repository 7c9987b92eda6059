"""One run, conducted with a real child process that stands in for the verifier."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError, connection
from pytest_django import Settings

from portal.catalog.models import Environment
from portal.runs import conductor, verification
from portal.runs.lease import reap_expired_leases, record_progress
from portal.runs.models import Run, Verdict
from portal.runs.services import cancel_run
from portal.runs.states import State
from portal.runs.tasks import conduct_next_run
from portal.runs.verification import parse_event, scrub_environment
from portal.standings.services import refresh_standing
from tests.conftest import People, Submit
from tests.portal.processes import FAKE_VERIFIER, find_processes, wait_for


@pytest.fixture(autouse=True)
def fake_verifier(settings: Settings, tmp_path: Path) -> None:
    settings.VERIFIER_COMMAND = FAKE_VERIFIER
    settings.WORK_DIR = tmp_path / "work"
    settings.LEASE_RENEWAL_SECONDS = 0.2


def conduct(submit: Submit, order: str, **given: object) -> Run:
    run = submit(source=f"# do: {order}\n", **given)
    conduct_next_run(run.environment_id)
    run.refresh_from_db()
    return run


def test_a_verdict_is_written(submit: Submit, settings: Settings) -> None:
    run = conduct(submit, "accept")
    assert run.verdict is not None
    assert (run.state, run.verdict.outcome) == (State.FINISHED, "accepted")
    assert run.progress == {"intake": {"state": "passed", "t": 0.2}, "structural": {"state": "started", "t": 0.3}}
    assert list(settings.WORK_DIR.glob("*/*")) == []


def test_a_rejection_is_a_verdict(submit: Submit) -> None:
    run = conduct(submit, "reject")
    assert run.verdict is not None
    assert (run.state, run.verdict.primary_failure) == (State.FINISHED, "STALE_CONSTANT")


def test_nothing_due_does_nothing(catalog: None) -> None:
    conduct_next_run("cpu-interpreter")
    assert not Run.objects.exists()


@pytest.mark.parametrize(
    ("order", "words"),
    [
        ("exit", "exit code 70"),
        ("flood", "more than 4,194,304 bytes"),
        ("other-task", "The verdict is for"),
        ("refuse", "exit code 3 and no valid verdict: unprivileged user namespaces are switched off run: kq doctor"),
        ("infrastructure INFRA_GPU_FAULT", "INFRA_GPU_FAULT"),
        ("infrastructure INFRA_UNSTABLE_TIMING", "INFRA_UNSTABLE_TIMING"),
    ],
)
def test_a_broken_verifier_costs_an_attempt_and_gives_no_verdict(submit: Submit, order: str, words: str) -> None:
    run = conduct(submit, order)
    assert (run.state, run.attempt) == (State.QUEUED, 1)
    attempt = run.attempts.get()
    assert attempt.outcome == "infrastructure"
    assert words in attempt.reason
    assert not Verdict.objects.exists()


@pytest.mark.parametrize("order", ["refuse", "infrastructure INFRA_GPU_FAULT", "infrastructure INFRA_UNSTABLE_TIMING"])
def test_what_is_our_fault_is_never_counted(submit: Submit, order: str) -> None:
    run = submit(source=f"# do: {order}\n", visibility="public")
    for _ in range(run.max_attempts):
        conduct_next_run("cpu-interpreter")
    run.refresh_from_db()
    assert run.state == State.CRASHED
    assert not Verdict.objects.exists()
    standing = refresh_standing(environment_id=run.environment_id, system_id=run.system_id)
    assert (standing.runs, standing.rejected, standing.failure_modes) == (0, 0, {})


def test_the_log_of_a_broken_verifier_is_kept(submit: Submit) -> None:
    assert "the harness is broken" in conduct(submit, "exit").attempts.get().log_tail


def test_a_verifier_that_cannot_start_is_a_fault(submit: Submit, settings: Settings) -> None:
    settings.VERIFIER_COMMAND = ["/nonexistent/verifier"]
    run = conduct(submit, "accept")
    assert "could not be started" in run.attempts.get().reason


def test_chatter_on_standard_error_is_no_progress(submit: Submit) -> None:
    run = conduct(submit, "chatter")
    assert run.state == State.FINISHED
    assert set(run.progress) == {"intake", "structural"}
    assert "\0" not in run.attempts.get().log_tail


def test_a_verifier_that_hangs_is_killed_with_its_group(submit: Submit, settings: Settings) -> None:
    settings.VERIFICATION_TIMEOUT_SECONDS = 1
    started = time.monotonic()
    run = conduct(submit, "hang")
    assert time.monotonic() - started < 15
    assert "did not end within 1 seconds" in run.attempts.get().reason
    assert find_processes(str(settings.WORK_DIR)) == []


def test_rounds_of_timed_calls_are_progress(submit: Submit) -> None:
    run = conduct(submit, "rounds")
    assert run.progress["timing"] == {"round": 5, "of": 4, "t": 0.1}
    assert run.progress["performance"] == {"state": "started", "t": 0.1}


def test_a_timed_verification_may_take_longer(submit: Submit, gpu: Environment, settings: Settings) -> None:
    settings.VERIFICATION_TIMEOUT_SECONDS, settings.TIMED_VERIFICATION_TIMEOUT_SECONDS = 1, 60
    assert conduct(submit, "slow 1.8", environment=gpu).state == State.FINISHED
    assert "did not end within 1 seconds" in conduct(submit, "slow 10").attempts.get().reason


def test_waiting_for_the_gpu_does_not_count(submit: Submit, settings: Settings) -> None:
    settings.VERIFICATION_TIMEOUT_SECONDS = 1
    run = conduct(submit, "wait 1.8")
    assert run.state == State.FINISHED
    assert "waiting" not in run.progress


def test_waiting_has_an_end(submit: Submit, settings: Settings) -> None:
    settings.GPU_WAIT_SECONDS = 1
    run = conduct(submit, "wait 60")
    assert run.state == State.QUEUED
    assert run.progress["waiting"] == {"for": "the GPU", "t": 0.1}


class Meanwhile(threading.Thread):
    """Does something in another thread while a run is conducted."""

    def __init__(self, deed: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self.deed = deed
        self.start()

    def run(self) -> None:
        wait_for(lambda: Run.objects.filter(state=State.RUNNING).exists())
        self.deed()
        connection.close()


@pytest.mark.django_db(transaction=True)
def test_a_cancelled_run_is_stopped(submit: Submit, people: People, settings: Settings) -> None:
    run = submit(source="# do: hang\n")
    Meanwhile(lambda: cancel_run(run=Run.objects.get(), user=people.alice))
    conduct_next_run("cpu-interpreter")
    run.refresh_from_db()
    assert (run.state, run.attempts.get().outcome) == (State.CANCELLED, "cancelled")
    assert find_processes(str(settings.WORK_DIR)) == []


@pytest.mark.django_db(transaction=True)
def test_a_lost_lease_stops_the_verifier_and_writes_nothing(submit: Submit, settings: Settings) -> None:
    settings.LEASE_SECONDS = 0
    settings.LEASE_RENEWAL_SECONDS = 1
    run = submit(source="# do: hang\n")
    Meanwhile(reap_expired_leases)
    conduct_next_run("cpu-interpreter")
    run.refresh_from_db()
    assert (run.state, run.attempts.get().outcome) == (State.QUEUED, "lease_expired")
    assert find_processes(str(settings.WORK_DIR)) == []


@pytest.mark.django_db(transaction=True)
def test_the_lease_is_renewed_during_a_long_run(submit: Submit, settings: Settings) -> None:
    settings.LEASE_SECONDS = 1
    reaped = []

    def reap() -> None:
        for _ in range(20):
            reaped.append(reap_expired_leases())
            time.sleep(0.1)

    run = submit(source="# do: slow 2.5\n")
    Meanwhile(reap)
    conduct_next_run("cpu-interpreter")
    run.refresh_from_db()
    assert (run.state, sum(reaped), len(reaped)) == (State.FINISHED, 0, 20)


@pytest.mark.django_db(transaction=True)
def test_a_database_that_is_away_for_a_moment_costs_no_run(submit: Submit, monkeypatch: pytest.MonkeyPatch) -> None:
    failures = [OperationalError("the server closed the connection")]

    def record_later(*, token: uuid.UUID, current_gate: str, progress: dict[str, Any]) -> None:
        if failures:
            raise failures.pop()
        record_progress(token=token, current_gate=current_gate, progress=progress)

    monkeypatch.setattr(conductor, "record_progress", record_later)
    run = conduct(submit, "slow 1")
    assert (run.state, run.attempt, failures) == (State.FINISHED, 1, [])
    assert set(run.progress) == {"intake", "structural"}


def test_secrets_stay_here() -> None:
    given = {"PATH": "/bin", "DATABASE_URL": "x", "PORTAL_SECRET_KEY": "x", "PGPASSWORD": "x", "KQ_TASKS": "t"}
    assert scrub_environment(given) == {"PATH": "/bin", "KQ_TASKS": "t"}


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"plain text",
        b'{"t": 1, "event": "stage", "gate": "intake", "state": "passed"}',
        b'{"t": 1, "event": "gate", "gate": "intake", "state": "won"}',
        b'{"t": 1, "event": "gate", "gate": ["intake"], "state": "passed"}',
        b'{"t": 1, "event": "timing", "round": 0, "of": 4}',
        b'{"t": 1, "event": "timing", "round": 1}',
        b'{"t": 1, "event": "waiting"}',
        b'{"t": 1, "event": "verdict", "outcome": "passed"}',
        b"[" * 4000,
        b"\xff\xfe",
    ],
)
def test_lines_that_are_no_event(line: bytes) -> None:
    assert parse_event(line) is None


_WORK = """
import pathlib, sys, time
from portal.runs.verification import VerifierProcess
with VerifierProcess(sys.argv[1:], directory=pathlib.Path("/")):
    time.sleep(600)
"""


def test_the_verifier_dies_with_its_worker(tmp_path: Path) -> None:
    """The worker is killed, so nobody is left to stop the verifier: the kernel does."""
    sleep = [sys.executable, "-c", "import time; time.sleep(600)", str(tmp_path)]
    with subprocess.Popen([sys.executable, "-c", _WORK, *sleep]) as worker:
        (verifier,) = wait_for(lambda: set(find_processes(str(tmp_path))) - {worker.pid})
        worker.kill()
    wait_for(lambda: verifier not in find_processes(str(tmp_path)), seconds=5)


def test_caps_are_what_the_documentation_says() -> None:
    assert (verification.VERDICT_CAP, verification.LINE_CAP) == (4 * 1024 * 1024, 4096)
