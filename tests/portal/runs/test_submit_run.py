from __future__ import annotations

import hashlib

import pytest
from django.core.exceptions import PermissionDenied, ValidationError
from django_q.models import OrmQ
from pytest_django import DjangoCaptureOnCommitCallbacks

from portal.catalog.models import Environment, Task
from portal.runs.models import Run, Source
from portal.runs.states import State
from tests.conftest import People, Submit
from tests.portal.factories import SOURCE

LIMIT = 256 * 1024


def test_it_queues_a_run(submit: Submit, people: People) -> None:
    run = submit()
    assert (run.state, run.attempt, run.visibility) == (State.QUEUED, 0, "private")
    assert (run.team, run.submitted_by) == (people.team, people.alice)
    assert run.task_digest == run.task.digest
    assert run.source.sha256 == hashlib.sha256(SOURCE.encode()).hexdigest()
    assert (run.source.text, run.source.bytes, run.source.lines) == (SOURCE, len(SOURCE), 5)


def test_the_same_bytes_are_kept_once(submit: Submit) -> None:
    first, second = submit(), submit(source=SOURCE.encode())
    assert first.source == second.source
    assert Source.objects.count() == 1
    assert first.pk != second.pk


def test_a_byte_more_is_another_source(submit: Submit) -> None:
    assert submit().source != submit(source=SOURCE + "\n").source


def test_the_web_leaves_no_pickle_for_a_worker(
    submit: Submit, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        submit()
    assert not OrmQ.objects.exists()


@pytest.mark.parametrize(
    ("source", "words"),
    [
        pytest.param(b"", "empty", id="nothing"),
        pytest.param("  \n\t\n", "empty", id="blank"),
        pytest.param(b"x" * (LIMIT + 1), "262,145 bytes", id="too large"),
        pytest.param("é" * (LIMIT // 2) + "x", "262,145 bytes", id="too large in bytes"),
        pytest.param(b"import torch\xff\n", "not UTF-8", id="not UTF-8"),
        pytest.param(b"\x7fELF\x02\x01\x01\x00", "NUL", id="binary"),
        pytest.param("a\0b", "NUL", id="NUL"),
        pytest.param("a\ud800", "not valid Unicode", id="lone surrogate"),
    ],
)
def test_a_bad_source_is_refused_with_the_reason(submit: Submit, source: str | bytes, words: str) -> None:
    with pytest.raises(ValidationError) as caught:
        submit(source=source)
    assert words in caught.value.message_dict["source"][0]
    assert not Run.objects.exists()
    assert not Source.objects.exists()


def test_the_largest_source_is_taken(submit: Submit) -> None:
    assert submit(source=b"#" * LIMIT).source.bytes == LIMIT


@pytest.mark.parametrize("name", ["charlie", "staff"])
def test_a_stranger_may_not_submit_for_the_team(submit: Submit, people: People, name: str) -> None:
    with pytest.raises(PermissionDenied, match="Kernel team"):
        submit(user=getattr(people, name))
    assert not Run.objects.exists()


@pytest.mark.parametrize("name", ["bob", "admin"])
def test_members_and_administrators_may(submit: Submit, people: People, name: str) -> None:
    assert submit(user=getattr(people, name)).submitted_by == getattr(people, name)


def test_an_unknown_visibility_is_refused(submit: Submit) -> None:
    with pytest.raises(ValidationError, match="private, team, public"):
        submit(visibility="secret")


def test_a_retired_task_is_refused(submit: Submit, task: Task) -> None:
    task.active = False
    with pytest.raises(ValidationError, match="no longer part"):
        submit()


def test_an_environment_without_worker_is_refused(submit: Submit) -> None:
    with pytest.raises(ValidationError, match="cpu-interpreter"):
        submit(environment=Environment.objects.get(slug="l40s"))
