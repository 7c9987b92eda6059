from __future__ import annotations

from datetime import UTC, datetime
from typing import cast

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.http import HttpResponse
from django.test import Client

from portal.catalog.models import Environment, Task
from portal.ops.models import Worker
from portal.runs.models import Run
from portal.runs.uploads import SOURCE_CAP
from portal.systems.models import System
from tests.conftest import People, Submit
from tests.portal.factories import SOURCE
from tests.portal.pages.conftest import Visit


class Post:
    """Submits the form of the submit page as somebody."""

    def __init__(self, client: Client, task: Task, system: System) -> None:
        self.client = client
        self.usual: dict[str, object] = {
            "task": task.pk,
            "environment": "cpu-interpreter",
            "system": system.pk,
            "visibility": "public",
            "text": SOURCE,
        }

    def __call__(self, **given: object) -> HttpResponse:
        return cast("HttpResponse", self.client.post("/submit/", self.usual | given))

    def upload(self, content: bytes, name: str = "solution.py", **given: object) -> HttpResponse:
        return self(text="", file=SimpleUploadedFile(name, content), **given)


@pytest.fixture
def post(visit: Visit, task: Task, system: System) -> Post:
    return Post(visit("alice"), task, system)


def expect_refusal(response: HttpResponse, words: str) -> str:
    page = response.content.decode()
    assert response.status_code == 400
    assert words in page
    assert not Run.objects.exists()
    return page


def test_pasted_text_is_queued(post: Post, people: People) -> None:
    response = post()
    run = Run.objects.get()
    assert (run.source.text, run.submitted_by, run.visibility, run.source_released) == (
        SOURCE,
        people.alice,
        "public",
        False,
    )
    assert response.status_code == 302
    assert response.headers["Location"] == f"/runs/{run.public_id}/"


def test_a_file_is_queued_byte_for_byte(post: Post) -> None:
    content = SOURCE.encode() + b"# caf\xc3\xa9\r\n"
    assert post.upload(content).status_code == 302
    assert Run.objects.get().source.text.encode() == content


def test_line_ends_of_pasted_text_are_those_of_a_file(post: Post) -> None:
    post(text=SOURCE.replace("\n", "\r\n"))
    assert Run.objects.get().source.text == SOURCE


def test_the_source_can_be_released(post: Post) -> None:
    post(release_source="on")
    assert Run.objects.get().source_released


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param(b"", "The file is empty", id="empty"),
        pytest.param(b"#" * (SOURCE_CAP + 1), "262,145 bytes", id="256 KiB and one byte"),
        pytest.param(b"x = 1\0\n", "NUL bytes", id="NUL"),
        pytest.param(b"x = '\xff'\n", "not UTF-8", id="not UTF-8"),
        pytest.param(b"\x7fELF\x02\x01\x01\x00\x00", "NUL bytes", id="binary"),
    ],
)
def test_a_bad_file_is_refused_with_its_reason(post: Post, content: bytes, words: str) -> None:
    expect_refusal(post.upload(content), words)


def test_a_file_of_just_256_kib_is_taken(post: Post) -> None:
    assert post.upload(b"#" * SOURCE_CAP).status_code == 302


@pytest.mark.parametrize("name", ["solution.txt", "solution.py.exe", ".py", "evil name;.py"])
def test_a_name_that_is_no_python_file_is_refused_and_the_text_kept(post: Post, name: str) -> None:
    page = expect_refusal(post.upload(SOURCE.encode(), name), "not a Python file by its name")
    assert "class ModelNew(torch.nn.Module)" in page


@pytest.mark.parametrize("name", ["../../evil.py", "/etc/evil.py", "..\\evil.py"])
def test_path_parts_of_a_name_reach_nothing(post: Post, name: str) -> None:
    """Django drops them before the form sees the name, and the name is never used."""
    response = post.upload(SOURCE.encode(), name)
    assert response.status_code in (302, 400)
    assert not Run.objects.filter(source__text__contains="evil").exists()


def test_a_refused_submission_keeps_what_was_typed(post: Post) -> None:
    page = expect_refusal(post(task="", text="class ModelNew: kept = 'yes'"), "This field is required")
    assert "kept = &#x27;yes&#x27;" in page


def test_a_refused_upload_keeps_its_text(post: Post) -> None:
    page = expect_refusal(post.upload(b"class ModelNew: kept = 1", task=""), "The text is kept below")
    assert "class ModelNew: kept = 1</textarea>" in page


def test_markup_in_a_kept_text_is_escaped(post: Post) -> None:
    page = expect_refusal(post(task="", text="</textarea><script>alert(1)</script>"), "Nothing was submitted")
    assert "<script>alert" not in page


def test_a_file_and_its_text_are_not_taken_together(post: Post) -> None:
    response = post(file=SimpleUploadedFile("solution.py", SOURCE.encode()))
    page = expect_refusal(response, "Give a file or its text, not both")
    assert "class ModelNew" in page


def test_neither_file_nor_text_is_refused(post: Post) -> None:
    expect_refusal(post(text=""), "The file is empty")


def test_a_text_without_a_model_is_judged_with_a_warning(post: Post) -> None:
    response = post(text="import torch\n")
    page = post.client.get(response.headers["Location"]).content.decode()
    assert "defines class ModelNew" in page
    assert "uses @triton.jit" in page


@pytest.mark.parametrize("environment", ["l40s", "h200"])
def test_an_environment_without_a_worker_is_refused(post: Post, environment: str) -> None:
    expect_refusal(post(environment=environment), "not one of the available choices")


def test_an_environment_with_a_worker_is_taken(post: Post, gpu: Environment) -> None:
    assert post(environment="h200").status_code == 302
    assert Run.objects.get().environment == gpu


def test_environments_say_whether_a_worker_is_at_work(post: Post, gpu: Environment) -> None:
    """The one where a run would start at once is offered first."""
    page = post.client.get("/submit/").content.decode()
    options = page.split('id="id_environment"')[1].split("</select>")[0]
    assert options.index(">NVIDIA H200<") < options.index(">CPU interpreter (no worker at work now)<")
    assert "L40S" not in options


def test_an_environment_whose_worker_went_silent_is_still_offered(post: Post, gpu: Environment) -> None:
    Worker.objects.update(last_seen_at=datetime(2026, 1, 2, tzinfo=UTC))
    assert ">NVIDIA H200 (no worker at work now)<" in post.client.get("/submit/").content.decode()


def test_a_request_over_the_limit_is_refused_before_it_is_read(post: Post) -> None:
    response = post.upload(b"#" * 2_000_000)
    assert response.status_code == 413
    assert "256 KiB" in response.content.decode()
    assert not Run.objects.exists()


def test_it_needs_a_sign_in(client: Client) -> None:
    response = client.get("/submit/")
    assert (response.status_code, response.headers["Location"]) == (302, "/sign-in/?next=/submit/")
    assert client.post("/submit/", {}).status_code == 302


def test_a_system_of_another_team_cannot_be_named(visit: Visit, task: Task, system: System) -> None:
    expect_refusal(Post(visit("charlie"), task, system)(), "not one of the available choices")


def test_without_a_system_it_says_what_to_do(visit: Visit, task: Task) -> None:
    assert "You are in no team with a system yet" in visit("charlie").get("/submit/").content.decode()


@pytest.mark.parametrize(("role", "status"), [("admin", 302), ("staff", 400)])
def test_administrators_submit_for_any_system_and_reviewers_do_not(
    visit: Visit, task: Task, system: System, role: str, status: int
) -> None:
    assert Post(visit(role), task, system)().status_code == status


def test_a_form_from_elsewhere_is_refused(people: People, task: Task, system: System) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(people.alice)
    response = Post(client, task, system)()
    assert response.status_code == 403
    assert "This form has expired" in response.content.decode()
    assert not Run.objects.exists()


def test_it_starts_with_the_task_that_was_asked_for(visit: Visit, task: Task) -> None:
    page = visit("alice").get("/submit/?task=l1-09").content.decode()
    assert '<option value="l1-09" selected>' in page


def test_it_starts_with_an_earlier_run(visit: Visit, submit: Submit) -> None:
    run = submit()
    assert "class ModelNew" in visit("alice").get(f"/submit/?from={run.public_id}").content.decode()


def test_a_run_that_one_may_not_see_cannot_be_started_from(visit: Visit, submit: Submit) -> None:
    run = submit(visibility="private")
    assert visit("charlie").get(f"/submit/?from={run.public_id}").status_code == 404


def test_a_source_that_one_may_not_read_is_not_copied(visit: Visit, submit: Submit) -> None:
    run = submit(visibility="public")
    page = visit("charlie").get(f"/submit/?from={run.public_id}").content.decode()
    assert "class ModelNew(torch" not in page
