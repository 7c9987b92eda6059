"""A task as `kq task new` writes it keeps every promise of a task."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.tasks import test_tasks as promises
from tests.tasks.loading import LoadedTask
from verifier.new_task import write_task
from verifier.task import load_task_folder

OF_INPUTS = [
    promise for promise in vars(promises).values() if "distribution" in getattr(promise, "__annotations__", {})
]


@pytest.fixture
def loaded(tmp_path: Path) -> LoadedTask:
    values = {"id": "l2-42", "slug": "scaled-sum", "title": "A scaled sum", "level": "L2", "family": "toys"}
    folder = write_task(values, tmp_path)
    files = [SimpleNamespace(**runpy.run_path(str(folder / name))) for name in ("reference.py", "hidden.py")]
    return LoadedTask(load_task_folder(folder), *files)


@pytest.mark.parametrize("promise", OF_INPUTS, ids=lambda promise: promise.__name__)
def test_a_promise_holds_on_every_distribution(promise: Callable[[LoadedTask, str], None], loaded: LoadedTask) -> None:
    for distribution in loaded.task.specification.distributions:
        promise(loaded, distribution.name)


def test_the_other_promises_hold(loaded: LoadedTask) -> None:
    promises.test_parameters_are_what_the_task_says_and_matter(loaded)
    promises.test_unknown_distribution_is_refused(loaded)
    promises.test_reference_shows_no_hidden_distribution(loaded)


def test_there_are_promises() -> None:
    assert len(OF_INPUTS) > 3
