from __future__ import annotations

from django.db.models import Q

from portal.notifications.kinds import Kind
from portal.notifications.models import Delivery, Notification, Webhook
from portal.notifications.services import notify, set_preferences
from portal.runs import lease
from portal.runs.models import Run
from tests.conftest import People, Submit
from tests.portal.factories import reject
from tests.portal.pages.conftest import WORKER, start_run


def finish(run: Run) -> None:
    held = start_run(run)
    assert held.lease_token
    lease.finish_run(token=held.lease_token, verdict=reject(held))


def test_a_verdict_is_told_to_the_team(submit: Submit, people: People) -> None:
    finish(submit(visibility="team"))
    told = Notification.objects.all()
    assert {row.user for row in told} == {people.alice, people.bob}
    assert told[0].text == "l1-09 by Hand-written: rejected (STALE_CONSTANT)."
    assert Delivery.objects.filter(notification__isnull=False, state="due").count() == 2


def test_a_private_run_is_told_to_nobody_else(submit: Submit, people: People) -> None:
    Webhook.objects.create(team=people.team, url="https://hooks.example/", secret="s")
    finish(submit(visibility="private"))
    assert [row.user for row in Notification.objects.all()] == [people.alice]
    assert not Delivery.objects.filter(webhook__isnull=False).exists()


def test_a_run_that_cannot_be_judged_is_told_at_its_end_only(run: Run) -> None:
    for attempt in range(run.max_attempts):
        assert Notification.objects.count() == 0, attempt
        held = lease.claim_run(environment=run.environment_id, worker=WORKER)
        assert held
        assert held.lease_token
        lease.fail_attempt(token=held.lease_token, reason="The device fell off the bus.")
    assert "could not be judged" in Notification.objects.get().text


def test_each_kind_and_way_is_switched_off_by_itself(people: People) -> None:
    set_preferences(user=people.alice, switches={Kind.VERDICT: (True, False), Kind.APPEAL: (False, False)})
    set_preferences(user=people.bob, switches={Kind.VERDICT: (False, True)})
    for kind in Kind:
        notify(kind=kind, team=people.team, text=f"about {kind}")
    alice, bob = Notification.objects.of(people.alice), Notification.objects.of(people.bob)
    assert {row.kind for row in alice} == {"verdict", "decision"}
    assert {row.kind for row in bob} == {"appeal", "decision"}
    mailed = Delivery.objects.filter(~Q(notification=None)).values_list("notification__user__username", flat=True)
    assert sorted(mailed) == ["alice", "bob", "bob", "bob"]


def test_whoever_did_it_is_not_told(people: People) -> None:
    told = notify(kind=Kind.APPEAL, team=people.team, text="opened", actor=people.alice)
    assert [row.user for row in told] == [people.bob]


def test_the_webhook_of_the_team_is_called(submit: Submit, people: People) -> None:
    hook = Webhook.objects.create(team=people.team, url="https://hooks.example/", secret="s")
    run = submit(visibility="team")
    finish(run)
    sent = Delivery.objects.get(webhook=hook).payload
    assert sent["run"]["id"] == str(run.public_id)
    assert (sent["run"]["outcome"], sent["run"]["primary_failure"]) == ("rejected", "STALE_CONSTANT")
