"""What the page of a run tells its owners while it is watched."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from portal.runs.models import Run
from tests.conftest import Submit
from tests.portal.factories import reject
from tests.portal.pages.conftest import Finish, Visit, finish, start_run, visit  # noqa: F401  fixtures


@pytest.fixture
def alice(visit: Visit) -> Client:  # noqa: F811
    return visit("alice")


def read(client: Client, run: Run) -> str:
    return client.get(f"/runs/{run}/").content.decode()


def read_elapsed(page: str) -> int:
    found = re.search(r'data-elapsed="(\d+)"', page)
    assert found
    return int(found[1])


def test_a_waiting_run_tells_its_place_and_how_long_it_has_waited(alice: Client, submit: Submit) -> None:
    submit()
    run = submit()
    Run.objects.filter(pk=run.pk).update(queued_at=timezone.now() + timedelta(seconds=-100))
    Run.objects.exclude(pk=run.pk).update(queued_at=timezone.now() + timedelta(seconds=-200))
    page = read(alice, run)
    assert "1 ahead in the queue" in page
    assert "It has waited for" in page
    assert 100 <= read_elapsed(page) < 110


def test_a_held_run_tells_its_worker_and_how_long_it_takes(alice: Client, run: Run) -> None:
    start_run(run)
    Run.objects.update(started_at=timezone.now() - timedelta(seconds=30), queued_at=timezone.now() - timedelta(hours=1))
    page = read(alice, run)
    assert "On host:cpu-interpreter." in page
    assert "A worker has been at it for" in page
    assert 30 <= read_elapsed(page) < 40


def test_an_ended_run_counts_no_more(alice: Client, run: Run, finish: Finish) -> None:  # noqa: F811
    finish(run)
    assert "data-elapsed" not in read(alice, run)


def test_a_run_that_ends_while_it_is_watched_can_be_appealed_at_once(
    visit: Visit,  # noqa: F811
    submit: Submit,
    finish: Finish,  # noqa: F811
) -> None:
    run = finish(submit(visibility="public"), reject)
    ended = visit("alice").get(f"/runs/{run}/status/").content.decode()
    assert 'id="review-panel" hx-swap-oob="true"' in ended
    assert "Appeal against this verdict" in ended
    stranger = visit("charlie").get(f"/runs/{run}/status/").content.decode()
    assert "Appeal against this verdict" not in stranger


def test_a_rejected_run_is_submitted_again_from_its_page(alice: Client, run: Run, finish: Finish) -> None:  # noqa: F811
    finish(run, reject)
    assert f'href="/submit/?from={run}"' in read(alice, run)
    page = alice.get(f"/submit/?from={run}").content.decode()
    assert "class ModelNew(torch.nn.Module)" in page
    assert '<option value="l1-09" selected>' in page
