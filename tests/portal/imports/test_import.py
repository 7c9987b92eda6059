"""A job of Harbor becomes runs: the right ones, once, all or nothing; and their pages say how the agent worked."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pytest
from django.core.exceptions import PermissionDenied, ValidationError
from django.core.management import CommandError, call_command

from portal.catalog.models import Environment, Task
from portal.imports.jobs import read_job
from portal.imports.models import ImportedTrial
from portal.imports.packages import Package, compute_task_digest, list_known, read_package
from portal.imports.services import Imported, import_job
from portal.review.models import TrailEvent
from portal.runs.models import Run, Source
from portal.systems.models import System
from tests.conftest import People
from tests.portal.factories import SOURCE
from tests.portal.imports.jobs import BEGAN, DIGEST, NAME, write_job, write_package, write_trial
from tests.portal.pages.conftest import Visit, visit  # noqa: F401  a fixture
from verifier.environment import load_environment
from verifier.exports.harbor import export
from verifier.judge import verify
from verifier.task import load_task
from verifier.verdict import FailureCode

pytestmark = pytest.mark.usefixtures("environment")
MARKUP = "<script>alert(1)</script>"


@pytest.fixture
def package(tmp_path: Path, environment: Environment) -> Package:
    return read_package(write_package(tmp_path / "package"))


def bring(people: People, package: Package, job: Path, **given: object) -> Imported:
    return import_job(user=people.alice, team=people.team, job=read_job(job), package=package, **given)  # type: ignore[arg-type]


def test_a_job_with_every_end_becomes_the_right_runs(people: People, package: Package, tmp_path: Path) -> None:
    made = bring(people, package, write_job(tmp_path / "job"), visibility="public")
    runs = list(Run.objects.order_by("repetition").select_related("trial", "source"))
    assert [run.trial.exception for run in runs] == [
        "",
        "AgentTimeoutError",
        "ContextWindowExceededError",
        "AgentSafetyRefusalError",
        "NonZeroAgentExitCodeError",
    ]
    assert [run.repetition for run in runs] == [1, 2, 3, 4, 5]
    assert [run.trial.flagged for run in runs] == [False] * 4 + [True]
    assert [run.wall_clock_seconds for run in runs] == [1_800, 1_860, 1_920, 1_980, 2_040]
    assert [run.source.text for run in runs] == [
        *(f"{SOURCE}# {number}\n" for number in range(3)),
        "",
        f"{SOURCE}# 4\n",
    ]
    assert "left no solution" in runs[3].trial.notes
    assert {(run.state, run.visibility, run.task_id, run.team) for run in runs} == {
        ("queued", "public", "l1-09", people.team)
    }
    (campaign,) = made.campaigns
    assert (campaign.state, campaign.title, campaign.runs.count()) == ("submitted", "job", 5)
    system = System.objects.get()
    assert (system.name, system.vendor, str(system.scaffold)) == (
        "model-5 in claude-code 2.1.0",
        "vendor",
        "claude-code 2.1.0",
    )
    first = runs[0].trial
    assert (first.input_tokens, first.cached_tokens, first.output_tokens) == (120_000, 90_000, 8_000)
    assert (first.cost_usd, first.claimed_reward, first.digest, first.started_at) == (1.25, 0.5, DIGEST, BEGAN)
    actions = list(TrailEvent.objects.order_by("number").values_list("action", flat=True))
    assert actions == ["system.create", *["run.submit"] * 5, "campaign.import"]


def test_what_an_agent_did_not_leave_is_judged_as_missing() -> None:
    verdict = verify(load_task("l1-09"), b"", load_environment("cpu-interpreter"))
    assert verdict.failures == [FailureCode.ART_MISSING_FILE]


def test_the_same_job_again_changes_nothing_and_new_trials_join_it(
    people: People, package: Package, tmp_path: Path
) -> None:
    job = write_job(tmp_path / "job", 1)
    first = bring(people, package, job)
    again = bring(people, package, job)
    assert (len(first.runs), len(again.runs), Run.objects.count()) == (1, 0, 1)
    write_trial(job, 8)
    more = bring(people, package, job)
    assert [run.repetition for run in more.runs] == [2]
    assert more.campaigns == first.campaigns
    assert System.objects.count() == 1


def test_each_system_has_its_own_campaign(people: People, package: Package, tmp_path: Path) -> None:
    job = write_job(tmp_path / "job", 1)
    write_trial(job, 1, agent_info={"name": "terminus-2", "version": "2.0", "model_info": None})
    made = bring(people, package, job)
    assert {campaign.system.name for campaign in made.campaigns} == {
        "model-5 in claude-code 2.1.0",
        "terminus-2 2.0",
    }
    assert {run.repetition for run in made.runs} == {1}


def test_a_failure_in_the_middle_leaves_nothing(
    people: People, package: Package, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = write_job(tmp_path / "job", 3)
    create = ImportedTrial.objects.create

    def fail_at_the_second(**given: object) -> ImportedTrial:
        if ImportedTrial.objects.exists():
            raise RuntimeError("the disk is full")
        return create(**given)

    monkeypatch.setattr(ImportedTrial.objects, "create", fail_at_the_second)
    with pytest.raises(RuntimeError):
        bring(people, package, job)
    for model in (Run, Source, System, ImportedTrial, TrailEvent):
        assert not model._default_manager.exists(), model


def test_only_who_manages_the_team_imports(people: People, package: Package, tmp_path: Path) -> None:
    job = read_job(write_job(tmp_path / "job", 1))
    for user in (people.bob, people.charlie):
        with pytest.raises(PermissionDenied):
            import_job(user=user, team=people.team, job=job, package=package)
    assert not Run.objects.exists()


def test_an_environment_without_a_worker_takes_no_import(people: People, tmp_path: Path) -> None:
    folder = write_package(tmp_path / "package")
    manifest = folder / "kernelquest.json"
    for slug in ("h200", "unknown"):
        manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"environment": slug}))
        with pytest.raises(ValidationError):
            bring(people, read_package(folder), write_job(tmp_path / slug, 1))
    assert not Run.objects.exists()


def test_a_package_of_another_release_is_told(tmp_path: Path, task: Task) -> None:
    known = list_known(read_package(write_package(tmp_path / "old", files={"task.toml": "00"})))
    assert known[NAME].problem == "l1-09 has changed since the package was written"
    known = list_known(read_package(write_package(tmp_path / "other", task="l1-98")))
    assert known[NAME].problem == "l1-98 is no active task here"


def test_an_exported_package_names_the_tasks_of_the_catalogue(tmp_path: Path, task: Task) -> None:
    environment = load_environment("cpu-interpreter")
    manifest = export([load_task("l1-09")], tmp_path / "out", environment, official=True)
    package = read_package(tmp_path / "out")
    assert compute_task_digest(package.tasks[0].files) == task.digest
    known = list_known(package)[NAME]
    assert (known.task, known.digest, known.problem) == ("l1-09", manifest.tasks[0].digest, "")


def run_command(job: Path, package: Path, *options: str, team: str = "kernels") -> str:
    out = StringIO()
    arguments = ["--package", str(package), "--team", team, "--user", "alice", *options]
    call_command("import_campaign", str(job), *arguments, stdout=out)
    return out.getvalue()


def test_the_command_shows_first_and_imports_on_a_word(people: People, tmp_path: Path) -> None:
    job, package = write_job(tmp_path / "job"), write_package(tmp_path / "package")
    shown = run_command(job, package)
    assert "12 trials: 7 run again, 5 score." in shown
    assert "run again: VerifierTimeoutError is no doing of the agent" in shown
    assert "score: NonZeroAgentExitCodeError, to be looked at" in shown
    assert "Add --yes to queue 5 runs" in shown
    assert not Run.objects.exists()
    assert "Imported 5 runs of model-5 in claude-code 2.1.0" in run_command(job, package, "--yes")
    again = run_command(job, package, "--yes")
    assert "5 imported before, 7 run again" in again
    assert "There is nothing to import" in again
    assert Run.objects.count() == 5


def test_the_command_says_what_is_wrong_with_its_input(people: People, tmp_path: Path) -> None:
    job, package = write_job(tmp_path / "job", 1), write_package(tmp_path / "package")
    with pytest.raises(CommandError, match="no team unknown"):
        run_command(job, package, team="unknown")
    with pytest.raises(CommandError, match="is no directory"):
        run_command(tmp_path / "missing", package)
    with pytest.raises(CommandError, match=r"kernelquest\.json is missing"):
        run_command(job, tmp_path)


def import_hostile(people: People, package: Package, tmp_path: Path) -> Run:
    """Import a trial in which every text that somebody chooses is markup, and return its run."""
    job = write_job(tmp_path / "job", 0)
    agent = {"name": f"a{MARKUP}", "version": "1", "model_info": {"name": f"m{MARKUP}\u0000", "provider": MARKUP}}
    folder = write_trial(job, 0, "AgentTimeoutError", trial_name=f"t{MARKUP}", agent_info=agent)
    call = {"function_name": MARKUP, "arguments": {"command": f"kq check {MARKUP}\u0000"}}
    steps = [{"source": "agent", "message": MARKUP, "timestamp": BEGAN.isoformat(), "tool_calls": [call]}]
    (folder / "agent" / "trajectory.json").write_text(json.dumps({"steps": steps}))
    return bring(people, package, job, visibility="public").runs[0]


def test_the_page_of_a_run_shows_how_the_agent_worked(
    people: People,
    package: Package,
    tmp_path: Path,
    visit: Visit,  # noqa: F811
) -> None:
    run = bring(people, package, write_job(tmp_path / "job", 1), visibility="public").runs[0]
    page = visit("alice").get(f"/runs/{run}/").content.decode()
    for text in (
        "How the agent worked",
        "120,000, 90,000 of them from a cache",
        "1.25 US dollars",
        "kq submit solution.py",
    ):
        assert text in page
    # Three and a half minutes after it began it asked twice, and submitted after twelve.
    assert '<td class="number">3:30</td>' in page
    assert '<td class="number">12:05</td>' in page
    others = visit("anonymous").get(f"/runs/{run}/").content.decode()
    assert "How the agent worked" in others
    assert "kq submit" not in others
    assert "which is not released" in others


def test_a_run_of_no_import_says_nothing_of_an_agent(run: Run, visit: Visit) -> None:  # noqa: F811
    assert "How the agent worked" not in visit("alice").get(f"/runs/{run}/").content.decode()


def test_nothing_of_a_trial_comes_to_life(
    people: People,
    package: Package,
    tmp_path: Path,
    visit: Visit,  # noqa: F811
) -> None:
    run = import_hostile(people, package, tmp_path)
    page = visit("alice").get(f"/runs/{run}/").content.decode()
    assert MARKUP not in page
    assert page.count("&lt;script&gt;alert(1)") >= 5
    assert "\0" not in page
