"""Measures how long twenty readers wait for the board: `python -m tests.load`, or `make load`.

On a throw-away PostgreSQL with invented runs, by the web server of a real host, once with everything kept and once
with nothing. Fails when the slowest twentieth of the answers takes longer than it may.
"""

from __future__ import annotations

import http.client
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles

from tests.postgres import run_postgres

ROOT = Path(__file__).resolve().parents[2]
READERS = 20
WORK_PAGES = 200
TASKS = 100
# Between two pages a reader reads.
PAUSE_SECONDS = (1.0, 3.0)
# A process that has just started loads its libraries at its first page.
WARM_UP_SECONDS = 10
# What a reader does on the board: mostly look at it, sometimes filter or order it.
PAGES = (*["/"] * 6, "/?environment=h200&level=L2", "/?dtype=fp32", "/?sort=speedup", "/?level=L1&sort=fast")
SERVER = ["-m", "gunicorn", "portal.wsgi:application", "--worker-class", "gthread", "--workers", "2", "--threads", "4"]


@dataclass(frozen=True)
class Case:
    """A way to serve the board, and how long 19 of 20 answers may take."""

    name: str
    settings: str
    limit_milliseconds: float


CASES = (Case("cached", "portal.settings", 15), Case("uncached", "tests.load.uncached", 100))


def populate(runs: int, systems: int) -> None:
    """Fill up the suite with invented tasks, and write the runs. Called in a process with Django's settings."""
    from portal.catalog.models import Task  # noqa: PLC0415  after the settings
    from tests.portal.population import populate  # noqa: PLC0415

    known = list(Task.objects.all())
    for number in range(len(known), TASKS):
        task = known[number % len(known)]
        task.pk, task.slug, task.title = f"x-{number:03}", f"invented-{number}", f"Invented task {number}"
        task.save(force_insert=True)
    populate(runs, systems=systems)


def run_django(variables: dict[str, str], code: str) -> None:
    """Run a line of Python after Django has been set up."""
    subprocess.run(
        [sys.executable, "-c", f"import django; django.setup(); {code}"], env=variables, cwd=ROOT, check=True
    )


def prepare(variables: dict[str, str], runs: int, systems: int) -> None:
    """Make the database, the static files and the runs."""
    for command in (["migrate"], ["collectstatic", "--no-input"], ["load_tasks"]):
        subprocess.run([sys.executable, "manage.py", *command, "--verbosity", "0"], env=variables, cwd=ROOT, check=True)
    run_django(variables, f"from tests.load.__main__ import populate; populate({runs}, {systems})")
    run_django(variables, "from django.db import connection; connection.cursor().execute('ANALYZE')")


def find_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass(frozen=True)
class Server:
    """A web server that runs."""

    port: int
    pid: int

    def measure_cpu(self) -> float:
        """Return the seconds of processor time that its processes have used, whatever else the machine does."""
        ticks = 0
        for path in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            except OSError:
                # It has ended since.
                continue
            if self.pid in (int(path.parent.name), int(fields[1])):
                ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")


@contextmanager
def serve(variables: dict[str, str], settings: str) -> Iterator[Server]:
    """Run the web server, and give it when it answers."""
    port = find_port()
    process = subprocess.Popen(
        [sys.executable, *SERVER, "--bind", f"127.0.0.1:{port}", "--no-control-socket", "--log-level", "error"],
        env=variables | {"DJANGO_SETTINGS_MODULE": settings},
        cwd=ROOT,
    )
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                fetch(port, "/healthz/ready")
                break
            except OSError:
                if time.monotonic() > deadline or process.poll() is not None:
                    raise
                time.sleep(0.2)
        yield Server(port, process.pid)
    finally:
        process.terminate()
        process.wait(30)


def fetch(port: int, path: str) -> float:
    """Return the seconds from a new connection to the last byte of a page. Raises RuntimeError without success."""
    started = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", path, headers={"Accept-Encoding": "identity"})
    answer = connection.getresponse()
    answer.read()
    connection.close()
    if answer.status != http.client.OK:
        raise RuntimeError(f"{path} answered {answer.status}")
    return time.perf_counter() - started


def read_pages(port: int, seed: int, seconds: float, pause: tuple[float, float]) -> list[float]:
    """Behave as one reader for some seconds, and return how long each page took after the warm-up."""
    draw = random.Random(seed)
    begin = time.monotonic()
    times = []
    # So that readers do not come in step.
    time.sleep(draw.uniform(0, pause[1]))
    while time.monotonic() < begin + WARM_UP_SECONDS + seconds:
        took = fetch(port, draw.choice(PAGES))
        if time.monotonic() > begin + WARM_UP_SECONDS:
            times.append(took)
        time.sleep(draw.uniform(*pause))
    return times


def measure(port: int, seconds: float, pause: tuple[float, float]) -> list[float]:
    """Return the milliseconds of every page that all readers together were sent."""
    with ThreadPoolExecutor(READERS) as pool:
        readers = [pool.submit(read_pages, port, seed, seconds, pause) for seed in range(READERS)]
        return [1000 * took for reader in readers for took in reader.result()]


def measure_work(server: Server) -> float:
    """Return the milliseconds of processor time that the server needs for a page, the database's not counted."""
    draw = random.Random(READERS)
    used = server.measure_cpu()
    for _ in range(WORK_PAGES):
        fetch(server.port, draw.choice(PAGES))
    return 1000 * (server.measure_cpu() - used) / WORK_PAGES


def describe(name: str, times: Sequence[float], seconds: float) -> float:
    """Print the figures of one measurement, and return the time within which 19 of 20 answers came."""
    cuts = quantiles(times, n=100)
    rate = len(times) / seconds
    print(
        f"{name:<22} {len(times):>6} pages {rate:>7.1f} a second"
        f"   p50 {cuts[49]:>7.1f} ms   p95 {cuts[94]:>7.1f} ms   p99 {cuts[98]:>7.1f} ms"
        f"   system load {os.getloadavg()[0]:.1f}"
    )
    return cuts[94]


def main(arguments: Sequence[str]) -> int:
    """Measure every case, and return 1 when one is too slow."""
    parser = ArgumentParser(prog="python -m tests.load", description=__doc__)
    parser.add_argument("--runs", type=int, default=120_000)
    parser.add_argument("--systems", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=30)
    options = parser.parse_args(arguments)
    late = []
    with run_postgres() as url, tempfile.TemporaryDirectory(prefix="kernelquest-load-") as folder:
        variables = os.environ | {
            "DATABASE_URL": url, "PORTAL_VAR": folder, "PORTAL_DEBUG": "0", "DJANGO_SETTINGS_MODULE": "portal.settings",
        }  # fmt: skip
        prepare(variables, options.runs, options.systems)
        print(f"{options.runs:,} runs of {options.systems} systems for {TASKS} tasks, {READERS} readers")
        # Whatever else the machine does is in the times.
        print(f"System load before anything is asked: {os.getloadavg()[0]:.1f}, on {os.cpu_count()} cores")
        for case in CASES:
            with serve(variables, case.settings) as server:
                slowest = describe(case.name, measure(server.port, options.seconds, PAUSE_SECONDS), options.seconds)
                rush = measure(server.port, options.seconds / 3, (0, 0))
                describe(f"{case.name}, without pause", rush, options.seconds / 3)
                print(f"{case.name:<22} {measure_work(server):.1f} ms of processor time a page")
            if slowest > case.limit_milliseconds:
                late.append(f"{case.name}: p95 {slowest:.1f} ms, at most {case.limit_milliseconds:.0f} ms")
    print("\n".join(late) or "Within the limits.")
    return bool(late)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
