"""The real worker: its supervisor, its django-q2 cluster and a child process that stands in for the verifier.

Each of its processes is killed in the middle of a run, and one verdict comes all the same.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.management import CommandError, call_command
from django_q.models import OrmQ
from pytest_django import Settings

from portal.catalog.models import Environment
from portal.ops.models import Worker
from portal.ops.supervisor import hold_lock
from portal.runs.dispatch import wake
from portal.runs.models import Run, Verdict
from portal.runs.states import State
from tests.conftest import Submit
from tests.portal.processes import FAKE_VERIFIER, build_database_url, find_processes, wait_for

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _settings_of_a_worker(settings: Settings) -> None:
    settings.FOR_WORKER = True


def find_parent(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def read_variables(process: int) -> dict[str, str]:
    """Return the environment of a process."""
    text = Path(f"/proc/{process}/environ").read_text()
    return dict(line.split("=", 1) for line in text.split("\0") if "=" in line)


class RunningWorker:
    """`manage.py worker` with short leases, and ways to find its processes."""

    def __init__(
        self, folder: Path, environment: str = "cpu-interpreter", database: str = "", options: Sequence[str] = ()
    ) -> None:
        self.folder, self.environment, self.database = folder, environment, database or build_database_url()
        self.options = options
        self.start()

    def start(self) -> None:
        variables = {
            **os.environ,
            "DATABASE_URL": self.database,
            "PORTAL_VAR": str(self.folder),
            "PORTAL_LEASE_SECONDS": "3",
            "PORTAL_STALL_SECONDS": "8",
            "PORTAL_VERIFIER_COMMAND": ",".join(FAKE_VERIFIER),
        }
        command = [sys.executable, "manage.py", "worker", "--environment", self.environment, *self.options]
        with (self.folder / "worker.log").open("ab") as log:
            self.process = subprocess.Popen(
                command, cwd=settings.BASE_DIR, env=variables, stdout=log, stderr=log, start_new_session=True
            )

    def list_cluster(self) -> list[int]:
        """The processes that share the cluster's command line: first process, sentinel, and the sentinel's children."""
        return [number for number in find_processes("manage.py cluster") if self.owns(number)]

    def owns(self, process: int) -> bool:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            return f"PORTAL_VAR={self.folder}\0".encode() in Path(f"/proc/{process}/environ").read_bytes()
        return False

    def list_all(self) -> list[int]:
        """Every living process of this worker, the verifier's too."""
        verifiers = find_processes(str(self.folder))
        return [number for number in find_processes("manage.py") if self.owns(number)] + verifiers

    def find(self, role: str) -> int:
        """The process of that role; the last three exist only while a run is judged."""
        if role == "supervisor":
            return self.process.pid
        verifier = wait_for(lambda: find_processes(str(self.folder / "work")), what="the verifier")[0]
        worker = find_parent(verifier)
        sentinel = find_parent(worker)
        roles = {"verifier": verifier, "worker": worker, "sentinel": sentinel, "first": find_parent(sentinel)}
        return roles[role]

    def kill(self, *roles: str) -> None:
        processes = [self.find(role) for role in roles]
        for process in processes:
            os.kill(process, signal.SIGKILL)

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(20)

    def read_log(self) -> str:
        return (self.folder / "worker.log").read_text()


@pytest.fixture
def worker(tmp_path: Path, catalog: None, request: pytest.FixtureRequest) -> Iterator[RunningWorker]:
    running = RunningWorker(tmp_path, getattr(request, "param", "cpu-interpreter"))
    try:
        wait_for(lambda: len(running.list_cluster()) >= 5, seconds=60, what="the cluster")
        yield running
        running.stop()
        wait_for(lambda: not running.list_all(), seconds=10, what="the end of every process")
    finally:
        for process in running.list_all():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        running.process.wait()


def wait_for_end(run: Run) -> Run:
    wait_for(lambda: not Run.objects.filter(pk=run.pk).open().exists(), seconds=90, what="the end of the run")
    run.refresh_from_db()
    return run


def wait_until_running() -> None:
    wait_for(lambda: Run.objects.filter(state=State.RUNNING).exists(), seconds=60, what="a run in progress")


def test_submissions_get_their_verdicts_and_a_poisonous_one_is_parked(worker: RunningWorker, submit: Submit) -> None:
    runs = [wait_for_end(submit(source=f"# do: {order}\n")) for order in ("accept", "exit", "reject")]
    assert [run.state for run in runs] == [State.FINISHED, State.CRASHED, State.FINISHED]
    assert list(Verdict.objects.order_by("id").values_list("outcome", flat=True)) == ["accepted", "rejected"]
    assert [run.attempts.count() for run in runs] == [1, 3, 1]
    assert Worker.objects.alive().get().environment_slug == "cpu-interpreter"


@pytest.mark.parametrize("worker", ["h200"], indirect=True)
def test_a_worker_with_a_gpu_serves_its_environment_for_longer_than_a_lease(
    worker: RunningWorker, submit: Submit, environment: Environment
) -> None:
    """Its lease is of three seconds; the heartbeat and the lease hold while the verifier works."""
    with pytest.raises(ValidationError, match="No worker of this installation serves l40s"):
        submit(environment=Environment.objects.get(slug="l40s"))
    other = submit(source="# do: accept\n", environment=environment)
    run = submit(source="# do: slow 8\n", environment=Environment.objects.get(slug="h200"))
    wait_until_running()
    while Run.objects.filter(pk=run.pk).open().exists():
        assert Worker.objects.alive().get().environment_slug == "h200"
        time.sleep(0.5)
    run.refresh_from_db()
    other.refresh_from_db()
    assert run.verdict is not None
    assert (run.state, run.attempt, run.verdict.body["environment"]) == (State.FINISHED, 1, "h200")
    assert other.state == State.QUEUED


@pytest.mark.parametrize(
    "killed",
    [
        ("verifier",),
        ("worker",),
        ("sentinel",),
        ("first",),
        ("supervisor",),
        ("supervisor", "first"),
    ],
    ids="+".join,
)
def test_a_process_killed_in_the_middle_of_a_run_costs_no_verdict(
    worker: RunningWorker, submit: Submit, killed: tuple[str, ...]
) -> None:
    run = submit(source="# do: slow 4\n")
    wait_until_running()
    worker.kill(*killed)
    if "supervisor" in killed:
        worker.process.wait()
        worker.start()
    ended = wait_for_end(run)
    assert (ended.state, ended.attempt) == (State.FINISHED, 2)
    assert Verdict.objects.get().attempt.number == 2
    assert list(run.attempts.values_list("number", flat=True)) == [1, 2]


def test_an_idle_cluster_that_hangs_is_started_again(worker: RunningWorker, submit: Submit) -> None:
    """django-q2 itself does not notice: the killed process waited at the queue and held its lock."""
    processes = worker.list_cluster()
    first = os.getpgid(processes[0])
    sentinel = next(number for number in processes if find_parent(number) == first)
    # The sentinel starts the process that works before its other ones; give it time to reach the queue.
    time.sleep(1)
    os.kill(min(number for number in processes if find_parent(number) == sentinel), signal.SIGKILL)
    assert wait_for_end(submit(source="# do: accept\n")).state == State.FINISHED
    assert Worker.objects.get().restarts >= 1


def test_nothing_outlives_a_killed_supervisor(worker: RunningWorker, submit: Submit) -> None:
    submit(source="# do: hang\n")
    wait_until_running()
    worker.kill("supervisor")
    worker.process.wait()
    wait_for(lambda: not worker.list_all(), seconds=5, what="the end of every process")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_stopping_gives_the_run_back_and_leaves_nothing(
    worker: RunningWorker, submit: Submit, number: signal.Signals
) -> None:
    run = submit(source="# do: hang\n")
    wait_until_running()
    assert worker.stop(number) == 0
    assert worker.list_all() == []
    run.refresh_from_db()
    assert (run.state, run.attempts.get().outcome) == (State.QUEUED, "lease_expired")
    assert not Worker.objects.exists()


def test_a_host_with_two_gpus_has_two_workers(tmp_path: Path, catalog: None, submit: Submit) -> None:
    host = socket.gethostname()
    names = {f"{host}:cpu-interpreter:{number}" for number in (0, 1)}
    with contextlib.ExitStack() as stack:
        workers = [RunningWorker(tmp_path, options=["--gpu", str(number)]) for number in (0, 1)]
        for running in workers:
            stack.callback(running.stop)
        wait_for(lambda: set(Worker.objects.values_list("name", flat=True)) == names, seconds=60, what="two workers")
        runs = [submit(source=f"# do: slow 6\n# {number}\n") for number in range(2)]
        wait_for(
            lambda: Run.objects.filter(state=State.RUNNING).count() == len(runs), seconds=60, what="two runs at once"
        )
        assert set(Run.objects.values_list("worker", flat=True)) == names
        seen = {read_variables(number).get("CUDA_VISIBLE_DEVICES") for number in find_processes(str(tmp_path / "work"))}
        assert seen == {"0", "1"}
    assert not Worker.objects.exists()


@pytest.mark.parametrize("gpu", ["all", "-1", "0,1", "1 2"])
def test_what_is_no_gpu_is_refused(gpu: str, catalog: None) -> None:
    with pytest.raises(CommandError, match="is no number of a GPU"):
        call_command("worker", f"--gpu={gpu}")


def test_a_second_worker_is_refused(tmp_path: Path, catalog: None) -> None:
    with hold_lock(tmp_path / "locks" / "cpu-interpreter.lock"):
        second = RunningWorker(tmp_path)
        assert second.process.wait(30) == 1
    assert f"Another worker serves cpu-interpreter on this host: process {os.getpid()}." in second.read_log()


def test_an_unknown_environment_is_refused(catalog: None) -> None:
    with pytest.raises(CommandError, match="Known: l40s, cpu-interpreter, h200"):
        call_command("worker", environment="moon")


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (FAKE_VERIFIER, "This host cannot judge in l40s.\ngpu: NVIDIA H200. environment l40s needs an NVIDIA L40S"),
        (["/nonexistent/verifier"], "The verifier cannot be asked about this host"),
        ([sys.executable, "-c", "import sys; sys.exit('broken')"], "does not say whether this host can judge. broken"),
    ],
)
def test_a_host_that_cannot_judge_takes_no_runs(
    catalog: None, settings: Settings, command: list[str], words: str
) -> None:
    settings.VERIFIER_COMMAND = command
    with pytest.raises(CommandError, match=re.escape(words)):
        call_command("worker", environment="l40s")
    assert not Worker.objects.exists()


def test_a_worker_needs_the_tables(tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "PORTAL_VAR": str(tmp_path)}
    command = [sys.executable, "manage.py", "worker"]
    ended = subprocess.run(command, cwd=settings.BASE_DIR, env=environment, capture_output=True, check=False, text=True)
    assert ended.returncode == 1
    assert "Run migrate and load_tasks first." in ended.stderr
    assert "Traceback" not in ended.stderr


def test_the_settings_of_the_web_are_refused(catalog: None, settings: Settings) -> None:
    settings.FOR_WORKER = False
    with pytest.raises(CommandError, match=r"--settings portal\.worker_settings"):
        call_command("worker")


def test_a_wake_up_is_for_this_host_alone(catalog: None) -> None:
    wake("cpu-interpreter")
    assert OrmQ.objects.get().key == f"{socket.gethostname()}:cpu-interpreter"


def test_a_worker_needs_the_catalogue() -> None:
    with pytest.raises(CommandError, match="run load_tasks first"):
        call_command("worker")
