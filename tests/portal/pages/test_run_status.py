from __future__ import annotations

import re

import pytest
from django.test import Client

from portal.catalog.models import Environment
from portal.runs import lease
from portal.runs.models import Run
from portal.runs.services import cancel_run
from tests.conftest import People, Submit
from tests.portal.pages.conftest import Finish, Visit, start_run


def find_poll(page: str) -> str:
    found = re.search(r'hx-get="([^"]+)"', page)
    assert found
    return found[1].replace("&amp;", "&")


def read_poll(client: Client, run: Run) -> str:
    return find_poll(client.get(f"/runs/{run.public_id}/").content.decode())


def test_nothing_is_sent_while_nothing_changes(visit: Visit, submit: Submit) -> None:
    client = visit("alice")
    response = client.get(read_poll(client, submit()))
    assert (response.status_code, response.content) == (204, b"")


def test_a_change_is_sent_once(visit: Visit, submit: Submit) -> None:
    client, run = visit("alice"), submit()
    poll = read_poll(client, run)
    start_run(run)
    response = client.get(poll)
    page = response.content.decode()
    assert response.status_code == 200
    assert "Running" in page
    assert 'role="status" hx-swap-oob="innerHTML">Running' in page
    assert "<html" not in page
    assert client.get(find_poll(page)).status_code == 204


def test_progress_is_a_change(visit: Visit, submit: Submit) -> None:
    client, run = visit("alice"), start_run(submit())
    poll = read_poll(client, run)
    assert run.lease_token is not None
    event = {"t": 0.1, "event": "gate", "gate": "intake", "state": "started"}
    lease.record_progress(token=run.lease_token, current_gate="intake", progress={"intake": event})
    assert "intake gate" in client.get(poll).content.decode()


def test_rounds_of_timed_calls_are_a_change(visit: Visit, submit: Submit, gpu: Environment) -> None:
    client, run = visit("alice"), start_run(submit(environment=gpu))
    assert run.lease_token is not None
    for number, words in ((1, "round 1 of 4 timed"), (4, "round 4 of 4 timed"), (5, "round 5 timed, 4 did not settle")):
        poll = read_poll(client, run)
        progress = {"performance": {"t": 9, "state": "started"}, "timing": {"t": 9, "round": number, "of": 4}}
        lease.record_progress(token=run.lease_token, current_gate="performance", progress=progress)
        page = client.get(poll).content.decode()
        gates = page.split('<ol class="gates">')[1].split("</ol>")[0]
        assert words in gates
        assert f">Running, performance gate, {words}" in page


def test_rounds_are_over_when_the_gate_is(visit: Visit, submit: Submit, gpu: Environment) -> None:
    run = start_run(submit(environment=gpu))
    assert run.lease_token is not None
    progress = {
        "performance": {"t": 9, "state": "passed"},
        "timing": {"t": 9, "round": 4, "of": 4},
        "structural": {"t": 9, "state": "started"},
    }
    lease.record_progress(token=run.lease_token, current_gate="structural", progress=progress)
    assert "round 4" not in visit("alice").get(f"/runs/{run.public_id}/").content.decode()


def test_waiting_for_the_gpu_is_a_change(visit: Visit, submit: Submit, gpu: Environment) -> None:
    client, run = visit("alice"), start_run(submit(environment=gpu))
    poll = read_poll(client, run)
    assert run.lease_token is not None
    lease.record_progress(token=run.lease_token, current_gate="", progress={"waiting": {"t": 1, "for": "the GPU"}})
    page = client.get(poll).content.decode()
    assert "Waiting for the GPU, which another verification uses." in page
    assert ">Running, waiting for the GPU." in page
    lease.fail_attempt(token=run.lease_token, reason="The GPU was lost.")
    assert "aiting for the GPU" not in client.get(poll).content.decode()


def test_a_place_in_the_queue_is_a_change(visit: Visit, submit: Submit, people: People) -> None:
    first, run = submit(), submit()
    client = visit("alice")
    poll = read_poll(client, run)
    cancel_run(run=first, user=people.alice)
    assert "Next in line" in client.get(poll).content.decode()


def test_the_end_stops_the_polling(visit: Visit, submit: Submit, finish: Finish) -> None:
    client, run = visit("alice"), submit()
    poll = read_poll(client, run)
    finish(run)
    response = client.get(poll)
    page = response.content.decode()
    assert response.status_code == 286
    assert "hx-get" not in page
    assert 'id="gate-correctness"' in page
    assert "Finished: accepted." in page


@pytest.mark.parametrize(
    ("role", "status"), [("anonymous", 404), ("charlie", 404), ("bob", 404), ("alice", 200), ("staff", 200)]
)
def test_who_may_poll_a_private_run(visit: Visit, submit: Submit, role: str, status: int) -> None:
    run = submit(visibility="private")
    assert visit(role).get(f"/runs/{run.public_id}/status/").status_code == status


def test_it_is_never_kept_by_a_cache(visit: Visit, submit: Submit) -> None:
    run = submit()
    assert "no-store" in visit("alice").get(f"/runs/{run.public_id}/status/").headers["Cache-Control"]
