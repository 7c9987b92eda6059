"""`kq submit`, `status`, `wait` and `reward` against a portal that answers over a real connection."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from pytest_django.live_server_helper import LiveServer
from typer.testing import CliRunner, Result

from portal.accounts.models import ApiToken
from portal.accounts.tokens import create_token
from portal.campaigns.models import Campaign, CampaignFile
from portal.catalog.models import Environment
from portal.runs.models import Run
from portal.runs.services import cancel_run
from portal.systems.models import System
from portal.systems.services import create_system
from tests.conftest import People
from tests.portal.factories import SOURCE, judge, reject
from tests.portal.pages.conftest import Finish, finish  # noqa: F401  a fixture
from verifier import portal_client
from verifier.cli import app
from verifier.cli_portal import show
from verifier.exits import Exit
from verifier.portal_client import Portal, PortalError, find_identifier
from verifier.verdict import FailureCode

pytestmark = pytest.mark.django_db(transaction=True)


class Command:
    """`kq` with a token of Alice's."""

    def __init__(self, address: str, secret: str) -> None:
        self.variables = {"KQ_PORTAL": address, "KQ_TOKEN": secret, "COLUMNS": "200"}

    def __call__(self, *arguments: object, **variables: str) -> Result:
        return CliRunner().invoke(app, list(map(str, arguments)), env=self.variables | variables)

    def read(self, *arguments: object) -> Any:  # noqa: ANN401  whatever JSON holds
        result = self(*arguments, "--json")
        return json.loads(result.stdout)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portal_client, "PAUSES_SECONDS", (0, 0))
    monkeypatch.setattr(portal_client, "FIRST_POLL_SECONDS", 0.05)


@pytest.fixture
def kq(live_server: LiveServer, people: People, system: System, environment: Environment) -> Command:
    _, secret = create_token(user=people.alice, name="test", scope="submit", days=7)
    return Command(live_server.url, secret)


@pytest.fixture
def solution(tmp_path: Path) -> Path:
    path = tmp_path / "solution.py"
    path.write_text(SOURCE)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder as an agent leaves it: three solutions, and what is none."""
    root = tmp_path / "night"
    for name in ("l1-09/1.py", "l1-09/2.py", "Lösungen/l2-01_rep1.py"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{SOURCE}# {name}\n", encoding="utf-8")
    (root / "README.md").write_text("Notes.")
    (root / "__pycache__").mkdir()
    (root / "__pycache__" / "l1-09.py").write_text("x = 1")
    return root


def expect(result: Result, code: Exit, words: str) -> None:
    assert words in " ".join(result.output.split()), result.output
    assert result.exit_code == code, result.output


def test_a_file_is_submitted_and_followed_to_its_verdict(kq: Command, solution: Path, finish: Finish) -> None:  # noqa: F811
    run = kq.read("submit", solution, "--task", "sparsemax-rows", "--visibility", "team")["run"]
    row = Run.objects.get()
    assert (str(row), row.source.text, row.visibility, row.system.slug) == (run["id"], SOURCE, "team", "hand-written")
    expect(kq("status", run["id"]), Exit.OK, "queued, 0 ahead")
    expect(kq("wait", run["id"], "--timeout", "0"), Exit.TIMED_OUT, "has not ended within the time")
    expect(kq("reward", run["id"]), Exit.TIMED_OUT, "has not ended within the time")
    finish(row, reject, reward=0.0)
    expect(kq("wait", f"{kq.variables['KQ_PORTAL']}{run['page']}"), Exit.POLICY, "rejected, STALE_CONSTANT")
    expect(kq("status", run["id"]), Exit.OK, "rejected, STALE_CONSTANT")
    assert kq.read("reward", run["id"])["reward"] == 0.0


def test_an_accepted_run_without_a_reward_says_why(kq: Command, solution: Path, finish: Finish) -> None:  # noqa: F811
    run = kq.read("submit", solution, "--task", "l1-09")["run"]
    finish(Run.objects.get(), judge)
    expect(kq("wait", run["id"]), Exit.OK, "accepted")
    expect(kq("reward", run["id"]), Exit.OK, "cpu-interpreter cannot decide a reward")


def test_waiting_ends_when_the_verdict_comes(kq: Command, solution: Path, finish: Finish) -> None:  # noqa: F811
    run = kq.read("submit", solution, "--task", "l1-09")["run"]
    results: list[Result] = []
    waiter = threading.Thread(target=lambda: results.append(kq("wait", run["id"], "--timeout", "20")))
    waiter.start()
    finish(Run.objects.get(), reject, FailureCode.CORR_VALUE)
    waiter.join(20)
    expect(results[0], Exit.CORRECTNESS, "rejected, CORR_VALUE")


def test_a_run_that_was_cancelled_has_no_verdict(kq: Command, solution: Path, people: People) -> None:
    run = kq.read("submit", solution, "--task", "l1-09")["run"]
    cancel_run(run=Run.objects.get(), user=people.alice)
    assert kq("wait", run["id"]).exit_code == Exit.TRANSIENT
    expect(kq("reward", run["id"]), Exit.TRANSIENT, "was cancelled and has no verdict")


def test_the_same_bytes_again_need_a_word_more(kq: Command, solution: Path) -> None:
    kq("submit", solution, "--task", "l1-09")
    expect(kq("submit", solution, "--task", "l1-09"), Exit.USAGE, f"see /runs/{Run.objects.get()}/, or submit it again")
    assert kq("submit", solution, "--task", "l1-09", "--again").exit_code == Exit.OK
    assert Run.objects.count() == 2


def test_a_folder_becomes_a_campaign(kq: Command, folder: Path, finish: Finish) -> None:  # noqa: F811
    result = kq("submit", folder, "--visibility", "public")
    expect(result, Exit.OK, "night/Lösungen/l2-01_rep1.py")
    assert "submitted, 3 runs" in result.output
    campaign = Campaign.objects.get()
    assert (campaign.title, campaign.state) == ("night", "submitted")
    runs = Run.objects.order_by("task_id", "repetition")
    assert [(run.task_id, run.repetition, run.visibility) for run in runs] == [
        ("l1-09", 1, "public"),
        ("l1-09", 2, "public"),
        ("l2-01", 1, "public"),
    ]
    for run in Run.objects.order_by("queued_at", "id"):
        finish(run, judge if run.repetition == 1 else reject)
    expect(kq("wait", campaign), Exit.BELOW_TARGET, "2 accepted, 1 rejected")
    expect(kq("reward", campaign), Exit.USAGE, "a campaign has no reward")


def test_a_folder_whose_sending_was_cut_off_is_gone_on_with(
    kq: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    send, sent = Portal.post, []

    def cut(self: Portal, path: str, *rest: Any, **more: Any) -> Any:  # noqa: ANN401  as it is
        if path.endswith("/files/"):
            sent.append(path)
            if len(sent) == 2:
                raise PortalError("the line is dead")
        return send(self, path, *rest, **more)

    monkeypatch.setattr(Portal, "post", cut)
    expect(kq("submit", folder), Exit.TRANSIENT, "the line is dead")
    assert (CampaignFile.objects.count(), Run.objects.count()) == (1, 0)
    (folder / "l1-09" / "2.py").rename(folder / "l1-09" / "3.py")
    assert kq("submit", folder).exit_code == Exit.OK
    # The first was there already.
    assert len(sent) == 2 + 2
    assert Campaign.objects.count() == 1
    assert list(Run.objects.order_by("task_id").values_list("repetition", flat=True)) == [1, 3, 1]


def test_a_file_that_is_gone_leaves_the_draft(kq: Command, folder: Path) -> None:
    expect(kq("submit", folder, "--dry-run"), Exit.OK, "Nothing was submitted. The draft is at http")
    (folder / "l1-09" / "2.py").unlink()
    (folder / "l1-09" / "1.py").write_text("class ModelNew: changed = True\n")
    assert kq("submit", folder).exit_code == Exit.OK
    assert Run.objects.count() == 2
    assert Run.objects.filter(source__text__contains="changed = True").exists()


def test_a_folder_that_is_submitted_already_needs_a_word_more(kq: Command, folder: Path) -> None:
    kq("submit", folder)
    expect(kq("submit", folder), Exit.USAGE, "submit them again with --again; nothing was submitted")
    assert Run.objects.count() == 3
    assert kq("submit", folder, "--again").exit_code == Exit.OK
    assert Run.objects.count() == 6


def test_a_folder_with_a_stray_file_submits_nothing(kq: Command, folder: Path) -> None:
    (folder / "helpers.py").write_text("x = 1")
    expect(kq("submit", folder), Exit.USAGE, "night/helpers.py: No part of the name is a task")
    assert not Run.objects.exists()


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("l1-09/3.py", b"#" * 300_000, "300,000 bytes"),
        ("l1-09/3.py", b"x = '\xe9'", "is not UTF-8"),
        ("l1-09/3.py", b"", "is empty"),
    ],
)
def test_a_bad_file_is_told_before_anything_is_sent(
    kq: Command, folder: Path, name: str, content: bytes, words: str
) -> None:
    (folder / name).write_bytes(content)
    result = kq("submit", folder)
    assert result.exit_code == Exit.NO_ARTIFACT
    # Of a file that is too large only so much is read as shows it.
    assert words.replace("300,000", "262,145") in " ".join(result.output.split())
    assert not Campaign.objects.exists()


def test_a_spent_quota_is_told_with_the_time(kq: Command, folder: Path, solution: Path, people: People) -> None:
    people.team.daily_runs = 1
    people.team.save()
    kq("submit", solution, "--task", "l1-09")
    result = kq("submit", folder)
    expect(result, Exit.TRANSIENT, "may submit 1 runs in 24 hours; 0 are left")
    assert "try again in 2" in result.output
    assert Campaign.objects.get().is_draft


def test_a_revoked_token_is_told_and_the_draft_kept(kq: Command, folder: Path) -> None:
    kq("submit", folder, "--dry-run")
    ApiToken.objects.update(revoked_at=timezone.now())
    expect(kq("submit", folder), Exit.USAGE, "The token was revoked at")
    assert CampaignFile.objects.count() == 3


def test_several_systems_ask_for_a_choice(kq: Command, solution: Path, people: People) -> None:
    create_system(slug="another", name="Another", team=people.team)
    expect(kq("submit", solution, "--task", "l1-09"), Exit.USAGE, "give --system with one of: another, hand-written")
    assert kq("submit", solution, "--task", "l1-09", "--system", "another").exit_code == Exit.OK
    expect(kq("submit", solution, "--task", "l1-09", "--system", "theirs"), Exit.USAGE, "There is none of this name")


@pytest.mark.parametrize(
    ("variables", "code", "words"),
    [
        ({"KQ_PORTAL": ""}, Exit.USAGE, "give --portal ADDRESS or set KQ_PORTAL"),
        ({"KQ_TOKEN": ""}, Exit.USAGE, "export KQ_TOKEN=kq_..."),
        ({"KQ_TOKEN": "kq_nothing"}, Exit.USAGE, "This is no token of this installation"),
        ({"KQ_PORTAL": "ftp://portal"}, Exit.USAGE, "is no address of a portal"),
        ({"KQ_PORTAL": "http://127.0.0.1:9"}, Exit.TRANSIENT, "cannot be reached"),
    ],
)
def test_what_is_missing_or_wrong_is_told(
    kq: Command, solution: Path, variables: dict[str, str], code: Exit, words: str
) -> None:
    expect(kq("submit", solution, "--task", "l1-09", **variables), code, words)


def test_wrong_arguments_are_told(kq: Command, solution: Path, tmp_path: Path) -> None:
    archive = tmp_path / "all.zip"
    archive.write_bytes(b"PK")
    expect(kq("submit", archive), Exit.USAGE, "unpack it, then submit the folder")
    expect(kq("submit", tmp_path / "absent"), Exit.NO_ARTIFACT, "there is no file or folder")
    expect(kq("submit", solution), Exit.USAGE, "give --task l1-09")
    expect(kq("status", "mine"), Exit.USAGE, "holds no identifier")
    expect(kq("status", "00000000-0000-4000-8000-000000000000"), Exit.USAGE, "shows you no run or campaign")
    error = kq.read("submit", solution)
    assert (error["ok"], error["exit"]) == (False, Exit.USAGE)


class Flaky(BaseHTTPRequestHandler):
    """Fails as told, one status a request, and then answers."""

    statuses: list[int]
    keys: list[str | None]
    headers_sent: dict[str, str]

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.keys.append(self.headers["Idempotency-Key"])
        status = self.statuses.pop(0) if self.statuses else 200
        self.send_response(status)
        for name, value in self.headers_sent.items():
            self.send_header(name, value)
        body = b'{"fine": true}' if status == 200 else b"<h1>Bad gateway</h1>"
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def ask_flaky(statuses: list[int], **headers: str) -> tuple[Any, list[str | None]]:
    """Return what a client makes of a server that fails at first, and the keys that it sent."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    handler = type("Told", (Flaky,), {"statuses": statuses, "keys": [], "headers_sent": named})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        try:
            answer = Portal(f"http://127.0.0.1:{server.server_port}", "kq_x").post("/runs/", {"a": 1})
        except PortalError as error:
            answer = error
        return answer, handler.keys  # type: ignore[attr-defined]
    finally:
        server.shutdown()
        server.server_close()


def test_a_request_is_sent_again_under_its_key() -> None:
    answer, keys = ask_flaky([502, 503])
    assert answer == {"fine": True}
    assert len(keys) == 3
    assert len(set(keys)) == 1


def test_a_server_that_stays_down_is_told() -> None:
    answer, keys = ask_flaky([502] * 9)
    assert "answered 502" in str(answer)
    assert len(keys) == 3


@pytest.mark.parametrize(("seconds", "requests"), [("0", 2), ("90", 1)])
def test_a_short_limit_is_waited_out_and_a_long_one_told(seconds: str, requests: int) -> None:
    _, keys = ask_flaky([429], Retry_After=seconds)
    assert len(keys) == requests


def test_a_token_does_not_follow_to_another_address() -> None:
    answer, keys = ask_flaky([302], Location="http://elsewhere.example/")
    assert "leads to http://elsewhere.example/. Give that address." in str(answer)
    assert len(keys) == 1


def test_an_identifier_is_found_in_an_address() -> None:
    identifier = "0b3f1a52-9b1e-4c44-8a2e-1f0c9a7d5e11"
    assert find_identifier(f"https://portal.example/runs/{identifier.upper()}/") == identifier


def test_what_a_portal_says_is_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    run = {"id": "[/bold]", "task": "[link=https://else.example]l1-09[/link]", "state": "queued", "ahead": 1}
    show(Portal("https://portal.example", "kq_x"), run | {"page": "/[red]", "verdict": None}, as_json=False)
    told = capsys.readouterr().out
    assert "run [/bold] of [link=https://else.example]l1-09[/link]: queued, 1 ahead" in told
    assert "https://portal.example/[red]" in told
