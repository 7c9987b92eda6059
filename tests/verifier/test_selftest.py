"""The parts of the self-test that need no box: headers of fixtures, where they belong, and what a report says."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from verifier import selftest
from verifier.environment import EnvironmentSpecification, load_environment
from verifier.judge import Plan
from verifier.selftest import (
    EXPLOITS,
    SHORT_GPU_LIMITS,
    SHORT_LIMITS,
    Fixture,
    FixtureResult,
    choose_part,
    find_fixture_task,
    list_fixtures,
    make_plan,
    read_fixture,
    read_log,
    run_selftest,
    summarise,
)
from verifier.turns import Turns
from verifier.verdict import FailureCode, Gate, GateResult, GateStatus, Outcome, Verdict

TESTS = Path(__file__).resolve().parents[1]
CPU, GPU = load_environment("cpu-interpreter"), load_environment("h200")


def write_fixture(root: Path, kind: str, name: str, *lines: str) -> Path:
    """Write a fixture whose header has a task, a reason and `lines`."""
    path = root / kind / f"{name}.py"
    path.parent.mkdir(exist_ok=True)
    header = ["# task: l1-09", *lines, "# why: A test of the header.", "", "import torch"]
    path.write_text("\n".join(header), encoding="utf-8")
    return path


def test_a_header_says_what_a_fixture_is(tmp_path: Path) -> None:
    path = write_fixture(
        tmp_path,
        "honest",
        "all_of_it",
        "# environments: h200 l40s",
        "# expect in h200: TIMING_SIDESTEP STALE_CONSTANT",
        "# expect in l40s: PERF_BELOW_FLOOR",
        "# also: STALE_CONSTANT",
        "# also: CORR_VALUE",
    )
    assert read_fixture(path) == Fixture(
        path,
        task="l1-09",
        expected="",
        also=("STALE_CONSTANT", "CORR_VALUE"),
        environments=("h200", "l40s"),
        elsewhere=(("h200", ("TIMING_SIDESTEP", "STALE_CONSTANT")), ("l40s", ("PERF_BELOW_FLOOR",))),
    )


def test_an_environment_may_expect_another_code(tmp_path: Path) -> None:
    fixture = Fixture(tmp_path, "l1-09", "CORR_VALUE", elsewhere=(("h200", ("TIMING_SIDESTEP",)),))
    assert fixture.expect("h200") == "TIMING_SIDESTEP"
    assert fixture.expect("l40s") == fixture.expect("cpu-interpreter") == "CORR_VALUE"


def test_an_environment_may_expect_other_codes_beside_the_first(tmp_path: Path) -> None:
    elsewhere = (("h200", ("TIMING_SIDESTEP", "CORR_VALUE")),)
    fixture = Fixture(tmp_path, "l1-09", "CORR_VALUE", also=("STALE_CONSTANT",), elsewhere=elsewhere)
    timing, value = FailureCode.TIMING_SIDESTEP, FailureCode.CORR_VALUE
    assert fixture.is_as_expected(make_verdict(Outcome.REJECTED, timing, value))
    assert not fixture.is_as_expected(make_verdict(Outcome.REJECTED, timing))
    assert not fixture.is_as_expected(make_verdict(Outcome.REJECTED, value, environment="l40s"))


def test_fixtures_are_listed_where_they_make_sense(tmp_path: Path) -> None:
    write_fixture(tmp_path, "exploits", "b_everywhere", "# expect: CORR_VALUE")
    write_fixture(tmp_path, "exploits", "a_timed", "# expect: TIMING_SIDESTEP", "# environments: h200 l40s")
    write_fixture(tmp_path, "honest", "a_descriptor", "# environments: h200")
    names = {
        slug: [item.path.stem for item in list_fixtures(tmp_path, slug)] for slug in ("", "cpu-interpreter", "l40s")
    }
    assert names == {
        "": ["a_timed", "b_everywhere", "a_descriptor"],
        "cpu-interpreter": ["b_everywhere"],
        "l40s": ["a_timed", "b_everywhere"],
    }


def test_the_fixtures_on_disk_differ_between_environments() -> None:
    everywhere, gpu, cpu = (
        {item.path.stem for item in list_fixtures(TESTS, slug)} for slug in ("", "h200", "cpu-interpreter")
    )
    assert "host_descriptor" in gpu - cpu
    assert "tf32_dot" in gpu & cpu
    assert gpu | cpu <= everywhere


def test_every_fixture_on_disk_names_known_environments_and_codes() -> None:
    for fixture in list_fixtures(TESTS):
        for slug in (*fixture.environments, *(slug for slug, _ in fixture.elsewhere)):
            assert load_environment(slug).slug == slug
        codes = {fixture.expected, *fixture.also, *(code for _, codes in fixture.elsewhere for code in codes)} - {""}
        assert codes <= set(FailureCode), fixture.path


def test_tasks_of_the_benchmark_and_of_the_fixtures_are_found() -> None:
    assert find_fixture_task("l1-09", TESTS).id == "l1-09"
    assert find_fixture_task("l1-90", TESTS).path.is_relative_to(TESTS)


def make_verdict(outcome: Outcome, *failures: FailureCode, environment: str = "h200") -> Verdict:
    return Verdict(
        task="l1-09",
        environment=environment,
        solution_sha256="0" * 64,
        verifier_version="1",
        started_at=datetime(2026, 1, 1, tzinfo=UTC),
        seconds=1.0,
        outcome=outcome,
        failures=list(failures),
        gates=[GateResult(gate=gate, status=GateStatus.PASSED) for gate in Gate],
    )


@pytest.mark.parametrize("outcome", [Outcome.ACCEPTED, Outcome.PASSED, Outcome.BELOW_TARGET])
def test_an_honest_fixture_may_be_slow(outcome: Outcome, tmp_path: Path) -> None:
    assert Fixture(tmp_path, "l1-09", "").is_as_expected(make_verdict(outcome))


@pytest.mark.parametrize("outcome", [Outcome.REJECTED, Outcome.INFRASTRUCTURE])
def test_an_honest_fixture_must_not_be_rejected_or_lost(outcome: Outcome, tmp_path: Path) -> None:
    assert not Fixture(tmp_path, "l1-09", "").is_as_expected(make_verdict(outcome, FailureCode.CORR_VALUE))


@pytest.mark.parametrize(
    ("outcome", "failures", "right"),
    [
        (Outcome.REJECTED, ["STALE_CONSTANT", "CORR_VALUE"], True),
        (Outcome.BELOW_TARGET, ["STALE_CONSTANT", "CORR_VALUE"], True),
        (Outcome.REJECTED, ["CORR_VALUE", "STALE_CONSTANT"], False),
        (Outcome.REJECTED, ["STALE_CONSTANT"], False),
        (Outcome.INFRASTRUCTURE, ["INFRA_GPU_FAULT", "STALE_CONSTANT", "CORR_VALUE"], False),
        (Outcome.INFRASTRUCTURE, ["STALE_CONSTANT", "CORR_VALUE"], False),
        (Outcome.PASSED, [], False),
    ],
)
def test_an_exploit_must_get_its_code_first_and_its_others_too(
    outcome: Outcome, failures: list[str], *, right: bool, tmp_path: Path
) -> None:
    fixture = Fixture(tmp_path, "l1-09", "STALE_CONSTANT", also=("CORR_VALUE",))
    assert fixture.is_as_expected(make_verdict(outcome, *map(FailureCode, failures))) is right


def test_the_code_of_the_verdicts_environment_counts(tmp_path: Path) -> None:
    fixture = Fixture(tmp_path, "l1-09", "CORR_VALUE", elsewhere=(("h200", ("TIMING_SIDESTEP",)),))
    sidestepped = (Outcome.REJECTED, FailureCode.TIMING_SIDESTEP)
    assert fixture.is_as_expected(make_verdict(*sidestepped, environment="h200"))
    assert not fixture.is_as_expected(make_verdict(*sidestepped, environment="cpu-interpreter"))


@pytest.mark.parametrize(
    ("expected", "rounds"),
    [
        ("", 1),
        ("TIMING_SIDESTEP", 1),
        ("PERF_BELOW_FLOOR", 1),
        ("PERF_SLOWER_THAN_BASELINE", 1),
        ("PERF_BELOW_TARGET", 1),
        ("STALE_TIMED_OUTPUT", 1),
        ("STALE_CONSTANT", 0),
        ("CORR_VALUE", 0),
        ("PREC_TF32", 0),
        ("ART_SYNTAX", 0),
    ],
)
def test_only_what_timing_can_show_is_timed(expected: str, rounds: int, tmp_path: Path) -> None:
    turns = Turns()
    plan = make_plan(Fixture(tmp_path, "l1-09", expected), GPU, turns)
    assert (plan.rounds, plan.limits) == (rounds, SHORT_GPU_LIMITS)
    assert plan.turns is turns


def test_a_fixture_is_timed_where_its_code_asks_for_it(tmp_path: Path) -> None:
    fixture = Fixture(tmp_path, "l1-09", "CORR_VALUE", elsewhere=(("h200", ("TIMING_SIDESTEP",)),))
    assert make_plan(fixture, GPU, None).rounds == 1
    plan = make_plan(fixture, CPU, None)
    assert (plan.rounds, plan.limits) == (0, SHORT_LIMITS)


def test_parts_hold_every_fixture_once(tmp_path: Path) -> None:
    fixtures = [Fixture(tmp_path / str(number), "l1-09", "") for number in range(7)]
    parts = [choose_part(fixtures, f"{number}/3") for number in (1, 2, 3)]
    assert [len(part) for part in parts] == [3, 2, 2]
    assert sorted((item for part in parts for item in part), key=lambda item: item.path) == fixtures
    assert choose_part(fixtures, "1/1") == fixtures


@pytest.mark.parametrize("part", ["0/2", "3/2", "2", "", "1/", "/2", "a/b", "-1/2", "1/2/3"])
def test_what_is_no_part_is_refused(part: str) -> None:
    with pytest.raises(ValueError, match="is no part such as 2/3"):
        choose_part([], part)


def make_result(name: str, *failing: str, kind: str = "exploit", as_expected: bool = True) -> FixtureResult:
    return FixtureResult.model_validate(
        {
            "name": name,
            "kind": kind,
            "task": "l1-09",
            "expected": "CORR_VALUE" if kind == "exploit" else "",
            "as_expected": as_expected,
            "outcome": Outcome.REJECTED if failing else Outcome.ACCEPTED,
            "failures": [],
            "failing_checks": list(failing),
            "seconds": 1.0,
        }
    )


def test_a_check_is_needed_by_what_nothing_else_rejects() -> None:
    results = [
        make_result("plain", kind="honest"),
        make_result("zeros", "values"),
        make_result("ones", "values"),
        make_result("twice_wrong", "values", "stale"),
        make_result("replay", "stale"),
        make_result("broken_honest", "narrowing", kind="honest"),
        make_result("slipped_through"),
    ]
    report = summarise(CPU, results)
    assert report.needed_by == {"stale": ["replay"], "values": ["ones", "zeros"]}
    assert [item.name for item in report.results] == [
        "ones", "replay", "slipped_through", "twice_wrong", "zeros", "broken_honest", "plain",
    ]  # fmt: skip
    assert report.environment == "cpu-interpreter"
    assert {"torch", "triton"} <= report.versions.keys()


def test_a_report_is_well_when_every_fixture_is() -> None:
    right, wrong = make_result("right", "values"), make_result("wrong", as_expected=False)
    assert summarise(CPU, [right]).ok
    assert not summarise(CPU, [right, wrong]).ok
    assert '"schema":"kernelquest.selftest/1"' in summarise(CPU, [right]).model_dump_json()


def test_a_log_is_read_up_to_where_it_was_cut(tmp_path: Path) -> None:
    fixtures = [read_fixture(write_fixture(tmp_path, "honest", name)) for name in ("first", "second", "third")]
    result = FixtureResult(
        name="first",
        kind="honest",
        task="l1-09",
        expected="",
        as_expected=False,
        outcome=Outcome.REJECTED,
        failures=[],
        failing_checks=[],
        seconds=1.0,
    )
    again = result.model_copy(update={"as_expected": True, "outcome": Outcome.ACCEPTED})
    other = result.model_copy(update={"name": "elsewhere"})
    log = tmp_path / "results.jsonl"
    assert read_log(log, fixtures) == []
    lines = [item.model_dump_json() for item in (result, again, other, result.model_copy(update={"name": "second"}))]
    log.write_text("\n".join(lines)[:-20], encoding="utf-8")
    assert read_log(log, fixtures) == [again]


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, int]]:
    """Let a GPU be shared here, and note each look: fixture, how many share the GPU, and rounds."""
    seen: list[tuple[str, int, int]] = []

    @contextmanager
    def share(environment: EnvironmentSpecification, jobs: int) -> Iterator[tuple[ThreadPoolExecutor, Turns]]:
        with ThreadPoolExecutor(jobs) as pool:
            yield pool, Turns()

    def judge(fixture: Fixture, folder: Path, environment: EnvironmentSpecification, plan: Plan) -> FixtureResult:
        name = fixture.path.stem
        seen.append((name, plan.sharing, plan.rounds))
        first = [item[0] for item in seen].count(name) == 1
        failing = () if name == "slipped" else ("values",)
        return make_result(name, *failing, as_expected=name == "right" or (name == "crowded" and not first))

    monkeypatch.setattr(selftest, "share_gpu", share)
    monkeypatch.setattr(selftest, "judge_fixture", judge)
    return seen


def test_what_goes_wrong_beside_others_is_looked_at_again_alone(
    looks: list[tuple[str, int, int]], tmp_path: Path
) -> None:
    names = ["slipped", "crowded", "wrong", "right"]
    fixtures = [Fixture(tmp_path / EXPLOITS / f"{name}.py", "l1-09", "CORR_VALUE") for name in names]
    results = {item.name: item.as_expected for item in run_selftest(fixtures, tmp_path, GPU, jobs=2)}
    # An exploit that was accepted once stays accepted, whatever a second look would say.
    assert results == {"slipped": False, "crowded": True, "wrong": False, "right": True}
    assert sorted(looks[:4]) == sorted((name, 2, 0) for name in names)
    assert sorted(looks[4:]) == [("crowded", 1, 0), ("wrong", 1, 0)]


def test_timed_fixtures_come_last_and_a_lone_one_is_looked_at_once(
    looks: list[tuple[str, int, int]], tmp_path: Path
) -> None:
    timed = Fixture(tmp_path / EXPLOITS / "timed.py", "l1-09", "TIMING_SIDESTEP")
    wrong = Fixture(tmp_path / EXPLOITS / "wrong.py", "l1-09", "CORR_VALUE")
    assert len(list(run_selftest([timed, wrong], tmp_path, GPU, jobs=1))) == 2
    assert looks == [("wrong", 1, 0), ("timed", 1, 1)]
