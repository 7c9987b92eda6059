"""Keeps exactly one live django-q2 cluster for one environment, on one GPU, of this host.

django-q2 needs it: an idle cluster whose worker is killed hangs for ever, and nothing in it notices. Every process of a
cluster dies with its parent, up to the supervisor, so that a restart never means two clusters on one device.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from django.conf import settings
from django.db import Error, connection

from portal.ops.processes import follow_parent
from portal.ops.services import note_worker_alive, note_worker_restart, register_worker, remove_worker
from portal.runs.dispatch import count_wakeups, name_post, name_worker, wake
from portal.runs.lease import expire_leases_of, reap_expired_leases
from portal.runs.models import Run

logger = logging.getLogger(__name__)

WATCH_SECONDS = 0.2
# So long a run may wait before an idle worker looks for it.
TICK_SECONDS = 1.0
GROUP_END_SECONDS = 5.0
# A cluster that lives shorter is started again only after as long, so that a lasting fault does not spin.
SHORTEST_LIFE_SECONDS = 5.0


class WorkerBusy(Exception):
    """Another worker serves this environment on this host."""


@contextlib.contextmanager
def hold_lock(path: Path) -> Iterator[None]:
    """Hold a lock for as long as the context, or the process, lives. Raises WorkerBusy when somebody else has it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+", encoding="ascii") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise WorkerBusy(f"Another worker serves {path.stem} on this host: process {file.read()}.") from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def end_group(group: int) -> None:
    """Kill every process of `group`, and wait until none is left."""
    deadline = time.monotonic() + GROUP_END_SECONDS
    with contextlib.suppress(ProcessLookupError):
        while time.monotonic() < deadline:
            os.killpg(group, signal.SIGKILL)
            time.sleep(0.02)


class Cluster:
    """One django-q2 cluster as a process group that does not outlive this process."""

    def __init__(self, environment: str) -> None:
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None
        self.started_at = 0.0

    def start(self) -> None:
        """Start the cluster."""
        self._process = subprocess.Popen(
            [sys.executable, settings.BASE_DIR / "manage.py", "cluster"],
            cwd=settings.BASE_DIR,
            env={**os.environ, "Q_CLUSTER_NAME": name_worker(self._environment)},
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=partial(follow_parent, os.getpid(), signal.SIGKILL),  # noqa: PLW1509  there is one thread
        )
        self.started_at = time.monotonic()

    def has_ended(self) -> bool:
        """Return whether the cluster's first process has ended, or was never started."""
        return self._process is None or self._process.poll() is not None

    def stop(self) -> None:
        """Kill the whole cluster at once: what it was doing is found again by its lease."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        # Reaped first: a dead process that nobody reaps still counts as a member of its group.
        self._process.wait()
        end_group(self._process.pid)
        self._process = None


class Supervisor:
    """The loop behind `manage.py worker`."""

    def __init__(self, environment: str) -> None:
        self.environment = environment
        self.post, self.name = name_post(environment), name_worker(environment)
        self._stopping = threading.Event()
        self._waiting_since: float | None = None
        self._patience = float(settings.STALL_SECONDS)
        self._next_tick = 0.0

    def request_stop(self, *_: object) -> None:
        """End the loop soon. Also a signal handler."""
        self._stopping.set()

    def run(self) -> None:
        """Serve until asked to stop. Raises WorkerBusy."""
        with hold_lock(settings.VAR_DIR / "locks" / f"{self.post}.lock"):
            register_worker(name=self.name, environment=self.environment, host=socket.gethostname())
            cluster = Cluster(self.environment)
            try:
                self._start(cluster)
                while not self._stopping.wait(WATCH_SECONDS):
                    self._watch(cluster)
            finally:
                cluster.stop()
            self._forget_leases()
            remove_worker(name=self.name)

    def _start(self, cluster: Cluster) -> None:
        shutil.rmtree(settings.WORK_DIR / self.post, ignore_errors=True)
        self._forget_leases()
        self._waiting_since = None
        cluster.start()
        logger.info("Serving %s.", self.post)

    def _forget_leases(self) -> None:
        """Give back at once what a dead cluster of this worker was judging."""
        with self._surviving_database():
            if expire_leases_of(self.name):
                reap_expired_leases()

    @contextlib.contextmanager
    def _surviving_database(self) -> Iterator[None]:
        try:
            yield
        except Error as error:
            logger.warning("The database does not answer: %s", error)
            connection.close()

    def _watch(self, cluster: Cluster) -> None:
        if cluster.has_ended():
            self._restart(cluster, "it ended")
        elif time.monotonic() >= self._next_tick:
            self._next_tick = time.monotonic() + TICK_SECONDS
            with self._surviving_database():
                self._tick()
            if self._is_stalled():
                # On a machine so slow that a cluster was still starting, the next one gets longer.
                self._patience *= 2
                self._restart(cluster, "a run waits and it does not take it")

    def _tick(self) -> None:
        """Say that this worker lives, give back what others lost, and wake the cluster when a run waits."""
        note_worker_alive(name=self.name)
        reap_expired_leases()
        due = Run.objects.filter(environment=self.environment).due().exists()
        if not due or Run.objects.filter(worker=self.name).held().exists():
            self._waiting_since, self._patience = None, float(settings.STALL_SECONDS)
            return
        self._waiting_since = self._waiting_since or time.monotonic()
        if not count_wakeups(self.environment):
            wake(self.environment)

    def _is_stalled(self) -> bool:
        return self._waiting_since is not None and time.monotonic() - self._waiting_since > self._patience

    def _restart(self, cluster: Cluster, reason: str) -> None:
        logger.warning("Starting the cluster of %s again: %s.", self.post, reason)
        short = time.monotonic() - cluster.started_at < SHORTEST_LIFE_SECONDS
        cluster.stop()
        with self._surviving_database():
            note_worker_restart(name=self.name)
        if short:
            self._stopping.wait(SHORTEST_LIFE_SECONDS)
        if not self._stopping.is_set():
            self._start(cluster)
