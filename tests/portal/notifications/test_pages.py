from __future__ import annotations

from django.test import Client

from portal.notifications.kinds import Kind
from portal.notifications.models import Notification, Preference
from portal.notifications.services import notify
from tests.conftest import People, Submit


def test_messages_are_shown_counted_and_read(client: Client, people: People, submit: Submit) -> None:
    run = submit(visibility="team")
    notify(kind=Kind.VERDICT, team=people.team, run=run, text="l1-09: <b>rejected</b>")
    client.force_login(people.bob)
    page = client.get("/notifications/").content.decode()
    assert "&lt;b&gt;rejected" in page
    assert f"/runs/{run.public_id}/" in page
    assert '1<span class="visually-hidden"> unread' in page
    client.post("/notifications/read/")
    assert "unread" not in client.get("/notifications/").content.decode()
    assert Notification.objects.of(people.alice).unread().count() == 1


def test_a_run_that_was_hidden_since_has_no_link(client: Client, people: People, submit: Submit) -> None:
    run = submit(visibility="team")
    notify(kind=Kind.VERDICT, team=people.team, run=run, text="l1-09")
    run.visibility = "private"
    run.save()
    client.force_login(people.bob)
    assert f"/runs/{run.public_id}/" not in client.get("/notifications/").content.decode()


def test_kinds_are_switched(client: Client, people: People) -> None:
    client.force_login(people.alice)
    assert client.get("/notifications/settings/").content.decode().count(" checked") == 6
    client.post("/notifications/settings/", {"verdict_in_page": "on"})
    row = Preference.objects.get(user=people.alice, kind="verdict")
    assert (row.in_page, row.by_mail) == (True, False)
    assert client.get("/notifications/settings/").content.decode().count(" checked") == 1


def test_messages_need_an_account(client: Client) -> None:
    for path in ("/notifications/", "/notifications/settings/"):
        assert client.get(path).status_code == 302
