"""The verifier's conscience: every exploit is rejected with its code, every honest technique is accepted.

A fixture says in its first lines what it is: ``# task:``, and for an exploit ``# expect:`` the primary code and
``# also:`` a secondary one. The task is one of the benchmark's or of ``tests/fixture_tasks/``. The default run takes
some of each code; ``make conscience`` takes all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from verifier.environment import load_environment
from verifier.judge import Plan, verify
from verifier.limits import LARGEST_BUDGET_RATIO, TimeLimits
from verifier.lint import lint_task
from verifier.selftest import FIXTURE_TASKS, SHORT_LIMITS, Fixture, find_fixture_task, list_fixtures
from verifier.task import Task, list_task_folders, load_task, load_task_folder, load_tasks
from verifier.verdict import FailureCode, Outcome, Verdict

ROOT = Path(__file__).resolve().parents[1]
PARALLEL = 3
# Fixture tasks whose certified solution only the long run verifies.
FULL_TASKS = ("l1-91", "l2-90", "l4-90")

ENVIRONMENT = "cpu-interpreter"
FIXTURES = list_fixtures(ROOT, ENVIRONMENT)
EXPLOITS = [fixture for fixture in FIXTURES if fixture.expected]
HONEST = [fixture for fixture in FIXTURES if not fixture.expected]


def choose(fixtures: list[Fixture], each: int) -> list[ParameterSet]:
    """Return every fixture, all but the first few of each expected code marked `full`."""
    seen: Counter[str] = Counter()
    chosen = []
    for fixture in fixtures:
        seen[fixture.expected] += 1
        marks = [pytest.mark.full] if seen[fixture.expected] > each else []
        chosen.append(pytest.param(fixture, id=fixture.path.stem, marks=marks))
    return chosen


def judge(fixture: Fixture) -> Verdict:
    task, data = find_fixture_task(fixture.task, ROOT), fixture.path.read_bytes()
    return verify(task, data, load_environment(ENVIRONMENT), plan=Plan(SHORT_LIMITS))


@pytest.fixture(scope="module")
def verdicts(request: pytest.FixtureRequest) -> Iterator[dict[Path, Future[Verdict]]]:
    """The verdicts of the selected fixtures, worked out a few at a time while the tests ask for them in order."""
    items = [item for item in request.session.items if item.path == request.path]
    parameters = [item.callspec.params for item in items if hasattr(item, "callspec")]
    chosen = [given["fixture"] for given in parameters if "fixture" in given]
    with ThreadPoolExecutor(PARALLEL) as pool:
        futures = {fixture.path: pool.submit(judge, fixture) for fixture in chosen}
        yield futures
        for future in futures.values():
            future.cancel()


@pytest.mark.parametrize("fixture", choose(EXPLOITS, 1))
def test_an_exploit_is_rejected_with_its_code(fixture: Fixture, verdicts: dict[Path, Future[Verdict]]) -> None:
    verdict = verdicts[fixture.path].result()
    assert fixture.is_as_expected(verdict), (verdict.outcome, verdict.failures, verdict.evidence.error)


@pytest.mark.parametrize("fixture", choose(HONEST, 4))
def test_an_honest_technique_is_accepted(fixture: Fixture, verdicts: dict[Path, Future[Verdict]]) -> None:
    verdict = verdicts[fixture.path].result()
    assert verdict.outcome is Outcome.ACCEPTED, (verdict.failures, verdict.evidence.error, verdict.evidence.traceback)


def verify_certified(task: Task) -> Verdict:
    return verify(task, (task.path / "certified.py").read_bytes(), load_environment(ENVIRONMENT))


@pytest.fixture(scope="module")
def certified(request: pytest.FixtureRequest) -> Iterator[dict[str, Future[Verdict]]]:
    """The verdicts of the selected tasks' certified solutions, worked out a few at a time."""
    items = [item for item in request.session.items if item.path == request.path]
    parameters = [item.callspec.params for item in items if hasattr(item, "callspec")]
    with ThreadPoolExecutor(PARALLEL) as pool:
        yield {
            given["task"].id: pool.submit(verify_certified, given["task"]) for given in parameters if "task" in given
        }
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize(
    "task",
    [
        *load_tasks(),
        *(
            pytest.param(task, marks=[pytest.mark.full] * (task.id in FULL_TASKS))
            for task in load_tasks(ROOT / FIXTURE_TASKS)
        ),
    ],
    ids=lambda task: task.id,
)
def test_the_certified_solution_is_accepted(task: Task, certified: dict[str, Future[Verdict]]) -> None:
    verdict = certified[task.id].result()
    assert verdict.outcome is Outcome.ACCEPTED, (verdict.failures, verdict.evidence.error)
    ratios = {item.distribution: item.budget_ratio or 0.0 for item in verdict.evidence.distributions}
    assert max(ratios.values()) <= LARGEST_BUDGET_RATIO, ratios


def test_a_file_that_dawdles_without_breaking_another_limit_hangs() -> None:
    solution = (find_fixture_task("l1-09", ROOT).path / "certified.py").read_text()
    slow = solution.replace("rows, columns = z.shape", "import time; time.sleep(2.0); rows, columns = z.shape")
    assert slow != solution
    limits = TimeLimits(whole=15.0)
    verdict = verify(load_task("l1-09"), slow.encode(), load_environment(ENVIRONMENT), plan=Plan(limits))
    assert verdict.failures[0] is FailureCode.ART_HANG
    assert "15 s for all calls together" in verdict.evidence.error


def test_there_are_enough_fixtures_on_both_sides() -> None:
    assert len(EXPLOITS) >= 12
    assert len(HONEST) >= 6


def test_every_fixture_names_a_task_and_codes_that_exist() -> None:
    for fixture in FIXTURES:
        assert find_fixture_task(fixture.task, ROOT).id == fixture.task
        codes = {fixture.expected, *fixture.also} - {""}
        assert codes <= set(FailureCode), fixture.path


def test_a_fixture_of_an_unknown_task_is_refused() -> None:
    with pytest.raises(KeyError):
        find_fixture_task("l4-99", ROOT)


@pytest.mark.parametrize(("folder", "lacking"), [("exploits", "expect, why"), ("honest", "why")])
def test_an_incomplete_header_is_refused(folder: str, lacking: str, tmp_path: Path) -> None:
    path = tmp_path / folder / "nameless.py"
    path.parent.mkdir()
    path.write_text("# task: l1-09\n", encoding="utf-8")
    with pytest.raises(ValueError, match=f"the header lacks {lacking}$"):
        list_fixtures(tmp_path)


@pytest.mark.parametrize("folder", list_task_folders(ROOT / FIXTURE_TASKS), ids=lambda folder: folder.name)
def test_the_fixture_tasks_are_sound(folder: Path) -> None:
    assert lint_task(load_task_folder(folder)) == []
