from __future__ import annotations

import pytest
from django.db import connection

from portal.campaigns.models import Campaign
from portal.campaigns.services import confirm_campaign, show_campaign
from portal.notifications.models import Delivery, Notification
from portal.notifications.services import set_webhook
from portal.runs.models import Run
from portal.runs.services import cancel_run
from tests.conftest import People, Submit
from tests.portal.campaigns.conftest import Put
from tests.portal.factories import reject
from tests.portal.ops.test_worker_role import be, claim, role  # noqa: F401  a fixture
from tests.portal.ops.test_worker_role import finish as finish_held
from tests.portal.pages.conftest import Finish, finish  # noqa: F401  a fixture


def test_people_are_told_once_of_a_whole_campaign(
    draft: Campaign,
    put: Put,
    people: People,
    finish: Finish,  # noqa: F811
) -> None:
    set_webhook(team=people.team, user=people.alice, url="https://team.example/hook")
    show_campaign(campaign=draft, user=people.alice, visibility="team", release_source=False)
    for number in (1, 2, 3):
        put(f"l1-09/{number}.py")
    confirm_campaign(campaign=draft, user=people.alice)
    first, second, third = Run.objects.order_by("queued_at", "id")
    cancel_run(run=third, user=people.alice)
    finish(first)
    assert not Notification.objects.exists()
    finish(second, reject)
    words = "All runs of a campaign of Hand-written have ended: 2 of 3 have a verdict."
    assert set(Notification.objects.values_list("user__username", "text")) == {("alice", words), ("bob", words)}
    # A program is told of each run.
    assert Delivery.objects.filter(webhook__isnull=False).count() == 2


def test_of_a_lone_run_people_are_told_at_once(submit: Submit, finish: Finish) -> None:  # noqa: F811
    finish(submit())
    assert Notification.objects.get().text == "l1-09 by Hand-written: accepted."


@pytest.mark.skipif(connection.vendor != "postgresql", reason="only PostgreSQL has roles: make test-postgres")
@pytest.mark.django_db(transaction=True)
def test_a_worker_of_few_rights_tells_of_a_campaign(draft: Campaign, put: Put, people: People, role: str) -> None:  # noqa: F811
    put("l1-09.py")
    confirm_campaign(campaign=draft, user=people.alice)
    with be(role):
        finish_held(claim())
    assert Notification.objects.get().text.endswith("have ended: 1 of 1 have a verdict.")
