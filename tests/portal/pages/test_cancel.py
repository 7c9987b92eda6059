from __future__ import annotations

import pytest

from portal.runs.states import State
from tests.conftest import Submit
from tests.portal.pages.conftest import Finish, Visit, start_run


@pytest.mark.parametrize(
    ("role", "status", "state"),
    [
        ("anonymous", 302, State.QUEUED),
        ("charlie", 404, State.QUEUED),
        ("bob", 302, State.CANCELLED),
        ("alice", 302, State.CANCELLED),
        ("staff", 404, State.QUEUED),
        ("admin", 302, State.CANCELLED),
    ],
)
def test_who_cancels_a_waiting_run(visit: Visit, submit: Submit, role: str, status: int, state: State) -> None:
    run = submit(visibility="public")
    assert visit(role).post(f"/runs/{run.public_id}/cancel/").status_code == status
    run.refresh_from_db()
    assert run.state == state


def test_a_run_at_work_is_asked_to_stop(visit: Visit, submit: Submit) -> None:
    run = start_run(submit())
    client = visit("alice")
    page = client.post(f"/runs/{run.public_id}/cancel/", follow=True).content.decode()
    assert "The worker was asked to stop" in page
    assert "Cancel the run" not in page


def test_a_run_that_has_ended_says_so(visit: Visit, submit: Submit, finish: Finish) -> None:
    run = finish(submit())
    page = visit("alice").post(f"/runs/{run.public_id}/cancel/", follow=True).content.decode()
    assert "has ended" in page


def test_a_link_cancels_nothing(visit: Visit, submit: Submit) -> None:
    assert visit("alice").get(f"/runs/{submit().public_id}/cancel/").status_code == 405
