"""The submit page says what is left, recognises bytes, and loses nothing that was typed or sent."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.utils import timezone

from portal.runs.models import Run
from portal.runs.services import cancel_run
from tests.conftest import People, Submit
from tests.portal.factories import SOURCE
from tests.portal.pages.conftest import Visit, visit  # noqa: F401  a fixture
from tests.portal.pages.test_submit import Post, post  # noqa: F401  a fixture


@pytest.fixture
def alice(visit: Visit) -> Client:  # noqa: F811
    return visit("alice")


def test_it_says_what_is_left(alice: Client, submit: Submit) -> None:
    submit()
    page = alice.get("/submit/").content.decode()
    assert 'may submit <strong class="figures">399</strong> runs now: 1 of 600 were submitted' in page
    assert "1 of at most 400 wait for a verdict" in page


def test_it_says_when_the_next_slot_opens(alice: Client, submit: Submit, people: People) -> None:
    people.team.daily_runs = 1
    people.team.save()
    run = submit()
    Run.objects.filter(pk=run.pk).update(queued_at=timezone.now() - timedelta(hours=20))
    opens = Run.objects.get().queued_at + timedelta(hours=24)
    page = alice.get("/submit/").content.decode()
    assert f'The next slot opens at <time datetime="{opens:%Y-%m-%dT%H:%M:%S}' in page
    assert f"data-local>{opens:%Y-%m-%d %H:%M} UTC</time>" in page


def test_it_says_when_verdicts_are_waited_for(alice: Client, submit: Submit, people: People) -> None:
    people.team.open_runs = 1
    people.team.save()
    submit()
    assert "opens when a run gets its verdict or is cancelled" in alice.get("/submit/").content.decode()


def test_the_same_bytes_are_told_and_taken_when_confirmed(post: Post) -> None:  # noqa: F811
    post()
    earlier = Run.objects.get()
    refused = post.upload(SOURCE.encode())
    page = refused.content.decode()
    assert refused.status_code == 409
    assert f'<a href="/runs/{earlier}/">' in page
    assert "class ModelNew(torch.nn.Module)" in page
    assert Run.objects.count() == 1
    assert post(allow_duplicate="on").status_code == 302
    assert Run.objects.count() == 2


def test_other_bytes_tasks_systems_and_ended_runs_are_no_duplicates(
    post: Post,  # noqa: F811
    people: People,
    submit: Submit,
) -> None:
    cancel_run(run=submit(), user=people.alice)
    assert post().status_code == 302
    assert post(text=f"{SOURCE}\n").status_code == 302
    assert post(task="l2-01").status_code == 302


def test_a_double_click_submits_once(post: Post) -> None:  # noqa: F811
    assert [post().status_code, post().status_code] == [302, 409]
    assert Run.objects.count() == 1


def test_a_spent_quota_keeps_the_text_of_the_file(post: Post, people: People) -> None:  # noqa: F811
    people.team.daily_runs = 1
    people.team.save()
    post()
    refused = post.upload(b"class ModelNew: kept = 1\n")
    assert refused.status_code == 400
    assert "may submit 1 runs in 24 hours; 0 are left" in refused.content.decode()
    assert "class ModelNew: kept = 1" in refused.content.decode()


def test_an_archive_is_refused_with_what_to_do(post: Post) -> None:  # noqa: F811
    response = post(text="", file=SimpleUploadedFile("all.zip", b"PK\x03\x04\0\0"))
    assert response.status_code == 400
    assert "Archives are not taken. Unpack it" in response.content.decode()


def test_how_long_the_agent_worked_is_kept_in_seconds(post: Post) -> None:  # noqa: F811
    post(wall_clock_minutes="12.5")
    run = Run.objects.get()
    assert run.wall_clock_seconds == 750
    assert "12.5 min" in post.client.get(f"/runs/{run}/").content.decode()
    assert post(wall_clock_minutes="-1", text="x = 1").status_code == 400
