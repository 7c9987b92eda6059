from __future__ import annotations

import pytest

from tests.conftest import Submit
from tests.portal.pages.conftest import Finish, Visit


def test_it_changes_who_sees_the_run_and_its_source(visit: Visit, submit: Submit, finish: Finish) -> None:
    run = finish(submit(visibility="private"))
    client = visit("alice")
    response = client.post(f"/runs/{run.public_id}/visibility/", {"visibility": "public", "release_source": "on"})
    assert response.status_code == 302
    run.refresh_from_db()
    assert (run.visibility, run.source_released) == ("public", True)
    assert "Hand-written" in visit("anonymous").get("/").content.decode()


@pytest.mark.parametrize(("role", "status"), [("anonymous", 302), ("charlie", 404)])
def test_others_change_nothing(visit: Visit, submit: Submit, role: str, status: int) -> None:
    run = submit(visibility="public")
    assert visit(role).post(f"/runs/{run.public_id}/visibility/", {"visibility": "private"}).status_code == status
    run.refresh_from_db()
    assert run.visibility == "public"


def test_an_unknown_choice_changes_nothing(visit: Visit, submit: Submit) -> None:
    run = submit(visibility="team")
    client = visit("alice")
    page = client.post(f"/runs/{run.public_id}/visibility/", {"visibility": "world"}, follow=True).content.decode()
    assert "Choose who sees the run" in page
    run.refresh_from_db()
    assert run.visibility == "team"
