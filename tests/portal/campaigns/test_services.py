from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import groupby

import pytest
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import IntegrityError, connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from portal.accounts.services import remove_member
from portal.campaigns import services
from portal.campaigns.models import Campaign, CampaignFile
from portal.campaigns.preview import build_preview
from portal.campaigns.services import (
    DRAFTS_A_TEAM,
    CampaignConflict,
    DuplicateFiles,
    cancel_campaign,
    confirm_campaign,
    create_campaign,
    discard_campaign,
    put_file,
    remove_files,
    show_campaign,
)
from portal.catalog.models import Environment, Task
from portal.review.models import TrailEvent
from portal.runs.models import Run, Source
from portal.runs.quotas import QuotaExceeded, read_quota
from portal.runs.services import cancel_run, keep_source, queue_run, set_visibility
from portal.standings.models import Standing
from portal.systems.models import System
from tests.conftest import People, Submit
from tests.portal.campaigns.conftest import Put
from tests.portal.factories import SOURCE
from tests.portal.pages.conftest import Finish, finish  # noqa: F401  a fixture


def expect_draft(draft: Campaign, files: int) -> None:
    draft.refresh_from_db()
    assert (draft.state, draft.files.count(), Run.objects.count()) == ("draft", files, 0)


def test_a_confirmed_draft_becomes_a_run_for_each_file(draft: Campaign, put: Put, people: People) -> None:
    put("l1-09/1.py")
    put("l1-09/2.py")
    put("l2-01.py")
    confirm_campaign(campaign=draft, user=people.bob)
    runs = Run.objects.order_by("task_id", "repetition")
    assert [(run.task_id, run.repetition) for run in runs] == [("l1-09", 1), ("l1-09", 2), ("l2-01", 1)]
    assert {(run.campaign, run.team, run.submitted_by, run.visibility) for run in runs} == {
        (draft, people.team, people.bob, "private")
    }
    assert runs[0].source.text == f"{SOURCE}# l1-09/1.py\n"
    draft.refresh_from_db()
    assert (draft.state, draft.files.count()) == ("submitted", 0)
    actions = list(TrailEvent.objects.values_list("action", flat=True))
    assert actions == ["campaign.create", *["run.submit"] * 3, "campaign.confirm"]


def test_the_same_file_again_is_recognised(draft: Campaign, people: People) -> None:
    outcomes = [
        put_file(campaign=draft, user=people.alice, name=name, content=content)[1]
        for name, content in (("l1-09.py", "x = 1"), ("./l1-09.py", "x = 1"), ("l1-09.py", "x = 2"))
    ]
    assert outcomes == ["added", "recognised", "replaced"]
    assert [(file.name, file.text) for file in draft.files.all()] == [("l1-09.py", "x = 2")]


def test_a_file_brings_how_long_its_agent_worked(draft: Campaign, people: People) -> None:
    def put_one(seconds: int | None) -> services.Put:
        return put_file(
            campaign=draft, user=people.alice, name="l1-09.py", content="x = 1", wall_clock_seconds=seconds
        )[1]

    assert [put_one(None), put_one(600), put_one(600)] == ["added", "replaced", "recognised"]
    with pytest.raises(ValidationError, match="Give whole seconds"):
        put_one(0)
    confirm_campaign(campaign=draft, user=people.alice)
    assert Run.objects.get().wall_clock_seconds == 600


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("l1-09.py", b"#" * 300_000, "The file has 300,000 bytes; at most 262,144"),
        ("l1-09.py", b"", "The file is empty"),
        ("l1-09.py", b"x = '\xe9'", "not UTF-8"),
        ("l1-09.py", "x = '\ud800'", "not valid Unicode"),
        ("l1-09.py", b"PK\x03\x04\0\0", "NUL bytes"),
        ("all.zip", b"PK\x03\x04\0\0", "Archives are not taken"),
        ("../l1-09.py", b"x = 1", "cannot be kept"),
        ("README.md", b"x = 1", "Only files that end in .py"),
    ],
)
def test_a_file_that_is_refused_changes_nothing(
    draft: Campaign, put: Put, name: str, content: str | bytes, words: str
) -> None:
    put("l2-01.py")
    with pytest.raises(ValidationError, match=words):
        put_file(campaign=draft, user=draft.created_by, name=name, content=content)
    assert [file.name for file in draft.files.all()] == ["l2-01.py"]


def test_a_name_of_other_letters_is_kept(draft: Campaign, put: Put, people: People) -> None:
    put("Lösungen 日本/l1-09_rep2.py")
    confirm_campaign(campaign=draft, user=people.alice)
    assert Run.objects.get().repetition == 2


def test_a_draft_has_a_greatest_size(draft: Campaign, put: Put, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "MAXIMUM_FILES", 2)
    put("l1-09/1.py")
    put("l1-09/2.py")
    with pytest.raises(ValidationError, match="has 2 files, and no campaign has more"):
        put("l1-09/3.py")
    put("l1-09/2.py", "replaced = True")
    assert draft.files.count() == 2


def test_one_file_that_is_not_placed_stops_all(draft: Campaign, put: Put, people: People) -> None:
    put("l1-09.py")
    stray = put("helpers.py")
    with pytest.raises(ValidationError, match=r"1 of the files, such as helpers.py: No part of the name is a task"):
        confirm_campaign(campaign=draft, user=people.alice)
    expect_draft(draft, 2)
    assert remove_files(campaign=draft, user=people.alice, files=[stray.pk]) == 1
    confirm_campaign(campaign=draft, user=people.alice)
    assert Run.objects.count() == 1


def test_two_files_for_one_repetition_stop_all(draft: Campaign, put: Put, people: People) -> None:
    put("l1-09/1.py")
    put("sparsemax-rows_rep1.py")
    assert [row.problem for row in build_preview(draft, people.alice).rows] == [
        "2 files are for this task and repetition. Remove all but one."
    ] * 2
    with pytest.raises(ValidationError, match="2 of the files"):
        confirm_campaign(campaign=draft, user=people.alice)
    expect_draft(draft, 2)


def test_a_retired_task_stops_all(draft: Campaign, put: Put, people: People, task: Task) -> None:
    put("l1-09.py")
    Task.objects.filter(pk=task.pk).update(active=False)
    with pytest.raises(ValidationError, match="No part of the name is a task"):
        confirm_campaign(campaign=draft, user=people.alice)
    expect_draft(draft, 1)


def test_an_environment_that_is_no_longer_served_stops_all(
    draft: Campaign, put: Put, people: People, environment: Environment
) -> None:
    put("l1-09.py")
    Campaign.objects.update(environment="h200")
    with pytest.raises(ValidationError, match="No worker of this installation serves h200"):
        confirm_campaign(campaign=draft, user=people.alice)
    expect_draft(draft, 1)


def test_an_empty_draft_is_not_confirmed(draft: Campaign, people: People) -> None:
    with pytest.raises(ValidationError, match="has no files"):
        confirm_campaign(campaign=draft, user=people.alice)


def test_what_another_tab_changed_is_looked_at_again(draft: Campaign, put: Put, people: People) -> None:
    put("l1-09/1.py")
    seen = build_preview(draft, people.alice).digest
    put("l1-09/2.py")
    with pytest.raises(CampaignConflict, match="has changed since you looked"):
        confirm_campaign(campaign=draft, user=people.alice, digest=seen)
    expect_draft(draft, 2)
    confirm_campaign(campaign=draft, user=people.alice, digest=build_preview(draft, people.alice).digest)


def test_the_same_bytes_need_a_word_more(draft: Campaign, put: Put, people: People, submit: Submit) -> None:
    earlier = submit()
    put("l1-09.py", SOURCE)
    put("l2-01.py", SOURCE)
    rows = build_preview(draft, people.alice).rows
    assert [row.earlier for row in rows] == [earlier, None]
    with pytest.raises(DuplicateFiles, match=r"1 of the files, such as l1-09.py"):
        confirm_campaign(campaign=draft, user=people.alice)
    cancel_run(run=earlier, user=people.alice)
    assert build_preview(draft, people.alice).duplicates == []
    confirm_campaign(campaign=draft, user=people.alice)
    assert Run.objects.filter(campaign=draft).count() == 2


def test_repetitions_of_the_same_bytes_need_a_word_more(draft: Campaign, put: Put, people: People) -> None:
    put("l1-09/1.py", SOURCE)
    put("l1-09/2.py", SOURCE)
    assert [row.twin for row in build_preview(draft, people.alice).rows] == ["", "l1-09/1.py"]
    with pytest.raises(DuplicateFiles):
        confirm_campaign(campaign=draft, user=people.alice)
    confirm_campaign(campaign=draft, user=people.alice, allow_duplicates=True)
    assert Run.objects.values("source").distinct().count() == 1


def test_an_earlier_run_that_one_may_not_see_is_not_told(
    draft: Campaign, put: Put, people: People, submit: Submit
) -> None:
    submit(user=people.bob, visibility="private")
    put("l1-09.py", SOURCE)
    assert build_preview(draft, people.alice).duplicates == []
    assert len(build_preview(draft, people.bob).duplicates) == 1


def test_a_quota_takes_all_or_none(draft: Campaign, put: Put, people: People) -> None:
    people.team.daily_runs = 2
    people.team.save()
    for number in (1, 2, 3):
        put(f"l1-09/{number}.py")
    with pytest.raises(QuotaExceeded, match="may submit 2 runs in 24 hours; 2 are left"):
        confirm_campaign(campaign=draft, user=people.alice)
    expect_draft(draft, 3)
    assert not Source.objects.exists()
    assert read_quota(people.team).used == 0


@pytest.mark.django_db(transaction=True)
def test_a_failure_in_the_middle_leaves_the_draft(
    draft: Campaign, put: Put, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    put("l1-09/1.py")
    put("l1-09/2.py")
    queue, calls = queue_run, []

    def fail_second(**given: object) -> Run:
        calls.append(given)
        if len(calls) == 2:
            raise OSError("the machine stops")
        return queue(**given)  # type: ignore[arg-type]

    monkeypatch.setattr(services, "queue_run", fail_second)
    with pytest.raises(OSError, match="the machine stops"):
        confirm_campaign(campaign=draft, user=people.alice)
    expect_draft(draft, 2)


def list_written(queries: CaptureQueriesContext) -> list[str]:
    """Return the tables that were written, in order, each as often as one after another."""
    found = (re.match(r'(?:INSERT INTO|UPDATE|DELETE FROM) "(\w+)"', query["sql"]) for query in queries)
    return [table for table, _ in groupby(match[1] for match in found if match)]


def test_nothing_of_a_campaign_is_written_while_others_wait_for_the_trail(
    draft: Campaign, put: Put, people: People
) -> None:
    # Who has the trail's lock and waits for a row can meet somebody who has the row and waits for the trail.
    for number in (1, 2, 3):
        put(f"l1-09/{number}.py")
    with CaptureQueriesContext(connection) as confirmed:
        confirm_campaign(campaign=draft, user=people.alice)
    assert list_written(confirmed)[-1] == "review_trailevent"
    assert list_written(confirmed).count("review_trailevent") == 1
    with CaptureQueriesContext(connection) as cancelled:
        assert cancel_campaign(campaign=draft, user=people.alice) == 3
    assert list_written(cancelled) == ["runs_run", "review_trailevent"]


def test_sources_are_kept_in_one_order_whatever_the_files_are_called(
    draft: Campaign, put: Put, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (1, 2, 3):
        put(f"l1-09/{number}.py")
    kept: list[str] = []

    def note(text: str, content: bytes) -> Source:
        source = keep_source(text, content)
        kept.append(source.pk)
        return source

    monkeypatch.setattr(services, "keep_source", note)
    confirm_campaign(campaign=draft, user=people.alice)
    assert len(kept) == 3
    assert kept == sorted(kept)


def test_a_campaign_is_confirmed_once(draft: Campaign, put: Put, people: People) -> None:
    put("l1-09.py")
    confirm_campaign(campaign=draft, user=people.alice)
    for act in (
        lambda: confirm_campaign(campaign=draft, user=people.alice),
        lambda: put("l2-01.py"),
        lambda: discard_campaign(campaign=draft, user=people.alice),
        lambda: remove_files(campaign=draft, user=people.alice, files=[1]),
    ):
        with pytest.raises(CampaignConflict, match=r"was submitted at .* UTC, with 1 runs"):
            act()
    assert Run.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_of_two_clicks_at_once_one_confirms(draft: Campaign, put: Put, people: People) -> None:
    for number in (1, 2, 3):
        put(f"l1-09/{number}.py")

    def attempt(_: int) -> bool:
        try:
            confirm_campaign(campaign=draft, user=people.alice)
        except CampaignConflict:
            return False
        finally:
            connection.close()
        return True

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(attempt, range(4))) == [False, False, False, True]
    assert Run.objects.count() == 3


@pytest.mark.django_db(transaction=True)
def test_two_campaigns_race_for_a_quota_and_one_gets_it_whole(
    draft: Campaign, people: People, system: System, environment: Environment
) -> None:
    people.team.daily_runs = 3
    people.team.save()
    other = create_campaign(user=people.bob, system=system, environment=environment)
    for campaign in (draft, other):
        for number in (1, 2):
            text = f"# {campaign} {number}\n"
            put_file(campaign=campaign, user=people.alice, name=f"l1-09/{number}.py", content=text)

    def attempt(campaign: Campaign) -> bool:
        try:
            confirm_campaign(campaign=campaign, user=people.alice)
        except QuotaExceeded:
            return False
        finally:
            connection.close()
        return True

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(attempt, [draft, other])) == [False, True]
    assert Run.objects.count() == 2
    assert sorted(Campaign.objects.values_list("state", flat=True)) == ["draft", "submitted"]


def test_a_discarded_draft_is_gone(draft: Campaign, put: Put, people: People) -> None:
    put("l1-09.py")
    discard_campaign(campaign=draft, user=people.bob)
    assert not CampaignFile.objects.exists()
    with pytest.raises(CampaignConflict, match="was discarded"):
        put("l1-09.py")


@pytest.mark.parametrize("name", ["charlie", "staff"])
def test_others_change_nothing(draft: Campaign, put: Put, people: People, name: str) -> None:
    put("l1-09.py")
    user = getattr(people, name)
    for act in (
        lambda: put_file(campaign=draft, user=user, name="l1-09.py", content="x = 1"),
        lambda: remove_files(campaign=draft, user=user, files=[1]),
        lambda: confirm_campaign(campaign=draft, user=user),
        lambda: discard_campaign(campaign=draft, user=user),
        lambda: show_campaign(campaign=draft, user=user, visibility="public", release_source=True),
        lambda: create_campaign(user=user, system=draft.system, environment=draft.environment),
    ):
        with pytest.raises(PermissionDenied, match="Only members of Kernel team"):
            act()
    expect_draft(draft, 1)


def test_whoever_left_the_team_changes_nothing_more(draft: Campaign, put: Put, people: People) -> None:
    put_file(campaign=draft, user=people.bob, name="l1-09/1.py", content="x = 1")
    remove_member(team=people.team, user=people.alice, member=people.bob)
    with pytest.raises(PermissionDenied):
        put_file(campaign=draft, user=people.bob, name="l1-09/2.py", content="x = 2")
    with pytest.raises(PermissionDenied):
        confirm_campaign(campaign=draft, user=people.bob)
    confirm_campaign(campaign=draft, user=people.alice)


def test_drafts_are_few_and_forgotten_ones_end(people: People, system: System, environment: Environment) -> None:
    drafts = [create_campaign(user=people.alice, system=system, environment=environment) for _ in range(DRAFTS_A_TEAM)]
    with pytest.raises(ValidationError, match="has 5 drafts"):
        create_campaign(user=people.bob, system=system, environment=environment)
    Campaign.objects.filter(pk=drafts[0].pk).update(changed_at=timezone.now() - timedelta(days=8))
    assert create_campaign(user=people.bob, system=system, environment=environment)
    drafts[0].refresh_from_db()
    assert drafts[0].state == "discarded"


def test_runs_of_a_campaign_are_shown_together(
    draft: Campaign,
    put: Put,
    people: People,
    finish: Finish,  # noqa: F811
) -> None:
    put("l1-09/1.py")
    put("l2-01/1.py")
    confirm_campaign(campaign=draft, user=people.alice)
    runs = [finish(run) for run in Run.objects.order_by("queued_at", "id")]
    with pytest.raises(ValidationError, match="are shown together"):
        set_visibility(run=runs[0], user=people.alice, visibility="public", release_source=True)
    show_campaign(campaign=draft, user=people.bob, visibility="public", release_source=True)
    assert set(Run.objects.values_list("visibility", "source_released")) == {("public", True)}
    assert Standing.objects.get(system=draft.system).runs == 2
    show_campaign(campaign=draft, user=people.bob, visibility="team", release_source=False)
    assert Standing.objects.get(system=draft.system).runs == 0


def test_a_draft_keeps_who_will_see_its_runs(draft: Campaign, put: Put, people: People) -> None:
    show_campaign(campaign=draft, user=people.alice, visibility="public", release_source=True)
    put("l1-09.py")
    confirm_campaign(campaign=draft, user=people.alice)
    assert set(Run.objects.values_list("visibility", "source_released")) == {("public", True)}


def test_the_database_takes_a_repetition_once(draft: Campaign, put: Put, people: People, submit: Submit) -> None:
    put("l1-09.py")
    confirm_campaign(campaign=draft, user=people.alice)
    other = submit()
    with pytest.raises(IntegrityError):
        Run.objects.filter(pk=other.pk).update(campaign=draft, repetition=1)


def test_a_campaign_of_300_files_is_confirmed_soon(
    draft: Campaign, people: People, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    tasks = list(Task.objects.active().order_by("pk")[:4])
    rows = [
        CampaignFile(
            campaign=draft, name=f"{task.pk}/{number}.py", sha256="0" * 64, text=f"# {task.pk} {number}\n", bytes=9
        )
        for task in tasks
        for number in (1, 2, 3)
    ]
    CampaignFile.objects.bulk_create(rows)
    with django_assert_max_num_queries(40 + 10 * len(rows)):
        confirm_campaign(campaign=draft, user=people.alice, allow_duplicates=True)
