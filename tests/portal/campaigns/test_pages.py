from __future__ import annotations

from typing import cast

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.http import HttpResponse
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from portal.campaigns.models import Campaign
from portal.campaigns.preview import build_preview
from portal.campaigns.services import confirm_campaign
from portal.runs.models import Run
from portal.systems.models import System
from tests.conftest import People, Submit
from tests.portal.campaigns.conftest import Put
from tests.portal.factories import SOURCE
from tests.portal.pages.conftest import Finish, Visit, finish, visit  # noqa: F401  fixtures


class Browser:
    """Alice at the page of the draft."""

    def __init__(self, client: Client, draft: Campaign) -> None:
        self.client, self.path = client, f"/campaigns/{draft}/"

    def read(self) -> str:
        return self.client.get(self.path).content.decode()

    def post(self, step: str, **given: object) -> HttpResponse:
        return cast("HttpResponse", self.client.post(f"{self.path}{step}/", given))

    def add(self, **files: bytes) -> HttpResponse:
        names = {name: name.replace("__", ".").replace("l1", "l1-").replace("l2", "l2-") for name in files}
        uploads = [SimpleUploadedFile(names[name], content) for name, content in files.items()]
        return self.post("files", files=uploads)


@pytest.fixture
def browser(visit: Visit, draft: Campaign) -> Browser:  # noqa: F811
    return Browser(visit("alice"), draft)


def test_a_draft_is_begun(visit: Visit, system: System, environment: object) -> None:  # noqa: F811
    client = visit("alice")
    page = client.get("/campaigns/new/").content.decode()
    assert "How files are named" in page
    given = {"system": system.pk, "environment": "cpu-interpreter", "title": "<b>Night", "visibility": "team"}
    response = client.post("/campaigns/new/", given)
    draft = Campaign.objects.get()
    assert response.headers["Location"] == f"/campaigns/{draft}/"
    assert "&lt;b&gt;Night" in client.get(f"/campaigns/{draft}/").content.decode()
    assert "Drafts to go on with" in client.get("/campaigns/new/").content.decode()
    assert "&lt;b&gt;Night" in client.get("/campaigns/").content.decode()


def test_a_bad_beginning_begins_nothing(visit: Visit, system: System, environment: object) -> None:  # noqa: F811
    response = visit("alice").post("/campaigns/new/", {"system": system.pk, "environment": "l40s"})
    assert response.status_code == 400
    assert "No draft was begun" in response.content.decode()
    assert not Campaign.objects.exists()


def test_files_are_added_previewed_and_submitted(browser: Browser, draft: Campaign) -> None:
    assert "The draft has no files yet" in browser.read()
    assert browser.add(l109_rep1__py=b"x = 1", l201__py=b"y = 1").status_code == 302
    page = browser.read()
    assert "Files: 2 added." in page
    assert "2 files for 2 tasks. Nothing is submitted yet." in page
    assert "Submit 2 runs" in page
    digest = build_preview(draft, draft.created_by).digest
    assert digest in page
    assert browser.post("confirm", digest=digest).status_code == 302
    page = browser.read()
    assert "The campaign was submitted" in page
    assert "0 of 2 runs judged" in page
    assert Run.objects.filter(campaign=draft).count() == 2


def test_of_many_files_the_bad_are_named_and_the_good_kept(browser: Browser, draft: Campaign) -> None:
    response = browser.add(l109__py=b"x = 1", l201__py=b"#" * 300_000, all__zip=b"PK", notes__md=b"x")
    page = response.content.decode()
    assert response.status_code == 400
    assert "3 files refused and not in the draft. Files: 1 added." in page
    assert "<code>l2-01.py</code>: The file has 300,000 bytes" in page
    assert "<code>all.zip</code>: Archives are not taken. Unpack it" in page
    assert [file.name for file in draft.files.all()] == ["l1-09.py"]


def test_too_many_files_at_a_time_are_told(browser: Browser, draft: Campaign) -> None:
    uploads = [SimpleUploadedFile(f"l1-09_{number}.py", b"x = 1") for number in range(101)]
    response = browser.post("files", files=uploads)
    assert response.status_code == 413
    assert "at most 100 files and 1 MB go at a time" in response.content.decode()
    assert not draft.files.exists()


def test_a_hostile_name_is_inert(browser: Browser, put: Put) -> None:
    put("<img src=x onerror=alert(1)>.py")
    assert "<img src=x" not in browser.read()
    assert "&lt;img src=x" in browser.read()


def test_problems_are_shown_and_removed_together(browser: Browser, put: Put, draft: Campaign) -> None:
    put("l1-09.py")
    put("helpers.py")
    put("setup.py")
    page = browser.read()
    assert "No run can be made of 2 of the 3 files" in page
    assert "Submit 3 runs" not in page
    refused = browser.post("confirm", digest=build_preview(draft, draft.created_by).digest)
    assert refused.status_code == 400
    assert "Nothing was submitted; the draft is as it was" in refused.content.decode()
    browser.post("files/remove", problems="1")
    assert "Submit 1 run" in browser.read()


def test_one_file_is_removed(browser: Browser, put: Put, draft: Campaign) -> None:
    file = put("l1-09.py")
    put("l2-01.py")
    browser.post("files/remove", file=[str(file.pk), "no number", "9" * 40, "9" * 5000, "\u0663"])
    assert [file.name for file in draft.files.all()] == ["l2-01.py"]


def test_a_second_click_and_a_second_tab_change_nothing(browser: Browser, put: Put, draft: Campaign) -> None:
    put("l1-09.py")
    old = build_preview(draft, draft.created_by).digest
    put("l2-01.py")
    stale = browser.post("confirm", digest=old)
    assert stale.status_code == 409
    assert "The draft has changed since you looked at it" in stale.content.decode()
    new = build_preview(draft, draft.created_by).digest
    browser.post("confirm", digest=new)
    again = browser.post("confirm", digest=new)
    assert again.status_code == 409
    assert "This campaign was submitted at" in again.content.decode()
    for step, given in (("files", {"files": []}), ("files/remove", {"file": "1"}), ("discard", {})):
        late = browser.post(step, **given)
        assert late.status_code in (400, 409)
        assert "0 of 2 runs judged" in late.content.decode()
    assert Run.objects.count() == 2


def test_the_same_bytes_ask_for_a_tick(browser: Browser, put: Put, submit: Submit, draft: Campaign) -> None:
    earlier = submit()
    put("l1-09.py", SOURCE)
    page = browser.read()
    assert f'Same bytes as <a href="/runs/{earlier}/">' in page
    digest = build_preview(draft, draft.created_by).digest
    assert browser.post("confirm", digest=digest).status_code == 409
    assert browser.post("confirm", digest=digest, allow_duplicates="on").status_code == 302


def test_more_than_the_quota_is_told_before_and_after(browser: Browser, put: Put, people: People) -> None:
    people.team.daily_runs = 1
    people.team.save()
    put("l1-09/1.py")
    put("l1-09/2.py")
    assert "2 runs are 1 more than your team may submit now" in browser.read()
    digest = build_preview(Campaign.objects.get(), people.alice).digest
    assert "2 runs" in browser.post("confirm", digest=digest).content.decode()
    assert not Run.objects.exists()


def test_a_list_has_pages(
    browser: Browser, draft: Campaign, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    common = {"system": draft.system, "team": draft.team, "environment": draft.environment}
    Campaign.objects.bulk_create(Campaign(title=f"No. {n}", created_by=draft.created_by, **common) for n in range(60))
    browser.client.get("/campaigns/")
    with django_assert_max_num_queries(12):
        page = browser.client.get("/campaigns/").content.decode()
    assert "Page 1 of 2, 61 campaigns" in page
    assert "First" in browser.client.get("/campaigns/?page=2").content.decode()


def test_a_discarded_draft_says_so_in_the_other_tab(browser: Browser, put: Put) -> None:
    put("l1-09.py")
    assert browser.post("discard").headers["Location"] == "/campaigns/"
    assert "This draft was discarded" in browser.read()
    assert browser.add(l109__py=b"x = 1").status_code == 409


def test_visibility_is_changed_for_all(browser: Browser, put: Put, draft: Campaign, people: People) -> None:
    put("l1-09.py")
    confirm_campaign(campaign=draft, user=people.alice)
    run = Run.objects.get()
    alone = browser.client.post(f"/runs/{run}/visibility/", {"visibility": "public"}, follow=True)
    assert "are shown together" in alone.content.decode()
    assert "part of the campaign" in browser.client.get(f"/runs/{run}/").content.decode()
    browser.post("visibility", visibility="public", release_source="on")
    run.refresh_from_db()
    assert (run.visibility, run.source_released) == ("public", True)


def test_the_runs_that_wait_are_cancelled_together(
    browser: Browser,
    put: Put,
    draft: Campaign,
    people: People,
    finish: Finish,  # noqa: F811
) -> None:
    for number in (1, 2, 3):
        put(f"l1-09/{number}.py")
    confirm_campaign(campaign=draft, user=people.alice)
    finish(Run.objects.get(repetition=1))
    assert "Cancel the runs without a verdict" in browser.read()
    browser.post("cancel")
    assert "Runs: 2 cancelled" in browser.read()
    assert list(Run.objects.order_by("repetition").values_list("state", flat=True)) == ["finished", *["cancelled"] * 2]
    assert "Cancel the runs without a verdict" not in browser.read()


def test_progress_is_sent_when_it_changes(
    browser: Browser,
    put: Put,
    draft: Campaign,
    people: People,
    finish: Finish,  # noqa: F811
) -> None:
    put("l1-09.py")
    confirm_campaign(campaign=draft, user=people.alice)
    page = browser.read()
    address = page.split('hx-get="')[1].split('"')[0].replace("&amp;", "&")
    assert browser.client.get(address).status_code == 204
    finish(Run.objects.get())
    changed = browser.client.get(address)
    assert changed.status_code == 286
    assert "1 of 1 run judged" in changed.content.decode()


@pytest.mark.parametrize(("role", "draft_status", "submitted_status"), [
    ("anonymous", 302, 302),
    ("charlie", 404, 404),
    ("staff", 404, 200),
    ("bob", 200, 200),
])  # fmt: skip
def test_who_sees_a_campaign(visit: Visit, put: Put, role: str, draft_status: int, submitted_status: int) -> None:  # noqa: F811
    put("l1-09.py")
    draft, client = Campaign.objects.get(), visit(role)
    assert client.get(f"/campaigns/{draft}/").status_code == draft_status
    for step in ("files", "files/remove", "confirm", "discard", "cancel", "visibility"):
        if role != "bob":
            assert client.post(f"/campaigns/{draft}/{step}/").status_code == min(draft_status, 404)
    Campaign.objects.update(state="submitted", submitted_at=timezone.now())
    assert client.get(f"/campaigns/{draft}/").status_code == submitted_status


def test_runs_that_are_private_to_their_submitter_are_not_shown(
    visit: Visit,  # noqa: F811
    put: Put,
    draft: Campaign,
    people: People,
) -> None:
    put("l1-09.py")
    confirm_campaign(campaign=draft, user=people.alice)
    page = visit("bob").get(f"/campaigns/{draft}/").content.decode()
    assert "Its runs are shown to alice only" in page
    assert str(Run.objects.get())[:8] not in page


def test_a_large_draft_costs_few_queries(
    browser: Browser, put: Put, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for task in ("l1-09", "l2-01", "l1-01"):
        for number in (1, 2, 3):
            put(f"{task}/{number}.py")
    browser.read()
    with django_assert_max_num_queries(16):
        browser.read()
