"""Every certified solution fits the official GPU: what its compiler makes of every launch at the timed dims."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from verifier.dry.run import examine_portability
from verifier.environment import load_environment
from verifier.portability import TaskPortability
from verifier.task import Task, load_tasks

PARALLEL = 2


@pytest.fixture(scope="module")
def results(request: pytest.FixtureRequest) -> Iterator[dict[str, Future[TaskPortability]]]:
    """What is found of the selected tasks, worked out two at a time while the tests ask for them in order."""
    items = [item for item in request.session.items if item.path == request.path]
    chosen = [item.callspec.params["task"] for item in items if hasattr(item, "callspec")]
    environment = load_environment("l40s")
    with ThreadPoolExecutor(PARALLEL) as pool:
        yield {task.id: pool.submit(examine_portability, task, environment) for task in chosen}
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("task", load_tasks(), ids=lambda task: task.id)
def test_the_certified_solution_fits_the_official_gpu(task: Task, results: dict[str, Future[TaskPortability]]) -> None:
    result = results[task.id].result()
    assert result.ok, (result.failures, result.error, [item for item in result.kernels if item.failures])
