"""How a target follows from sessions, and what a certificate keeps."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verifier import __version__, certification
from verifier.certificate import (
    Certificate,
    Session,
    compute_digests,
    list_changed,
    load_certificate,
    write_certificate,
)
from verifier.certification import (
    CertificationError,
    certify,
    choose_target,
    decide,
    is_certified,
    list_earlier,
    measure,
    read_session,
)
from verifier.environment import load_environment
from verifier.limits import LEAST_SPEEDUP, MOST_SESSIONS, ROOM
from verifier.task import Task, find_tasks_root, load_task, load_task_folder
from verifier.verdict import Verdict

H200 = load_environment("h200")
RECORDED = Path(__file__).resolve().parents[1] / "portal" / "verdicts" / "sparsemax_h200.json"


def session(speedup: float, budget_ratio: float = 0.1) -> Session:
    return Session(
        eager_ms=2.0, compiled_ms=1.0, certified_ms=1.0 / speedup, speedup=speedup, budget_ratio=budget_ratio
    )


@pytest.mark.parametrize(
    ("speedup", "target"), [(14.53, 13.5), (4.512, 4.21), (1.63, 1.52), (1.06, 1.02), (1.2, 1.12), (107.0, 100.0)]
)
def test_a_target_leaves_room_to_clear_it_again(speedup: float, target: float) -> None:
    assert choose_target(speedup) == target


@given(st.floats(LEAST_SPEEDUP, 1000.0))
def test_a_target_is_within_its_room_and_above_the_baseline(speedup: float) -> None:
    target = choose_target(speedup)
    assert 1.0 < target < speedup
    assert target <= max(speedup / ROOM, 1.02)
    assert target > 0.98 * speedup / ROOM


def test_the_slowest_session_but_the_last_sets_the_target() -> None:
    assert decide([session(2.0), session(1.9)]) == (1.86, "", False)
    assert decide([session(2.0), session(1.8), session(1.75)]) == (1.68, "", False)


def test_a_session_that_misses_the_target_leaves_it_open() -> None:
    decision = decide([session(2.0), session(1.8)])
    assert (decision.target, decision.open) == (None, True)
    assert "a session reached 1.800, below the target of 1.86" in decision.reason


@pytest.mark.parametrize(
    ("sessions", "words"),
    [
        ([session(1.2), session(1.04)], "1.040 times as fast as the baseline; below 1.05"),
        ([session(3.0), session(3.0, budget_ratio=0.43)], "takes 0.43 of the error budget"),
    ],
)
def test_what_stands_in_the_way_is_named(sessions: list[Session], words: str) -> None:
    decision = decide(sessions)
    assert (decision.target, decision.open) == (None, False)
    assert words in decision.reason


@pytest.fixture(scope="module")
def verdict() -> Verdict:
    """A verdict of the certified solution that was measured on an H200."""
    return Verdict.model_validate_json(RECORDED.read_bytes())


def test_a_session_keeps_the_figures_of_a_verdict(verdict: Verdict) -> None:
    timing = verdict.evidence.timing
    assert timing is not None
    found = read_session(verdict, timing)
    assert found.speedup == pytest.approx(timing.speedup, abs=1e-4)
    assert found.certified_ms == pytest.approx(timing.sides["candidate"].mean, abs=1e-6)
    assert found.speedup == pytest.approx(min(found.eager_ms, found.compiled_ms or 1e9) / found.certified_ms, rel=1e-3)
    assert found.own_share is not None
    assert 0 < (found.budget_ratio or 0) < 1 / 3


def replay(monkeypatch: pytest.MonkeyPatch, verdict: Verdict, speedups: list[float]) -> None:
    """Let each session give the recorded verdict with the next of these speedups."""
    left = iter(speedups)

    def repeat(*_: object) -> tuple[Session, Verdict]:
        timing = verdict.evidence.timing
        assert timing is not None
        return read_session(verdict, timing).model_copy(update={"speedup": next(left)}), verdict

    monkeypatch.setattr(certification, "measure", repeat)


@pytest.mark.parametrize(
    ("speedups", "target", "sessions"),
    [([14.5, 14.4], 13.5, 2), ([14.5, 13.0, 12.9], 12.1, 3), ([14.5, 13.0, 10.0], None, MOST_SESSIONS)],
)
def test_a_third_session_settles_what_two_leave_open(
    speedups: list[float], target: float | None, sessions: int, verdict: Verdict, monkeypatch: pytest.MonkeyPatch
) -> None:
    replay(monkeypatch, verdict, speedups)
    kept: list[Certificate] = []
    certificate, _ = certify(load_task("l1-09"), H200, lambda event: None, keep=lambda _, item: kept.append(item))
    assert (certificate.target, len(certificate.sessions), certificate.finished) == (target, sessions, True)
    assert certificate.certified is (target is not None)
    assert [(len(item.sessions), item.finished, item.target) for item in kept] == [
        (number, False, None) for number in range(1, sessions)
    ]
    if target is not None:
        assert certificate.margin == pytest.approx(speedups[-1] / target - 1, abs=1e-4)
    else:
        assert "below the target" in certificate.reason


def test_a_solution_that_fails_its_own_task_is_not_certified() -> None:
    with pytest.raises(CertificationError, match=r"needs torch 2\.11\.0"):
        measure(load_task("l1-09"), H200, lambda event: None)


@pytest.fixture
def task(tmp_path: Path) -> Task:
    folder = tmp_path / "l1" / "sparsemax-rows"
    shutil.copytree(find_tasks_root() / "l1" / "sparsemax-rows", folder, ignore=shutil.ignore_patterns("certificates"))
    return load_task_folder(folder)


def make_certificate(task: Task) -> Certificate:
    return Certificate.model_validate(
        {
            "schema": "kernelquest.certificate/1",
            "task": task.id,
            "environment": "h200",
            "target": 13.5,
            "verifier_version": __version__,
            "sessions": [session(14.5).model_dump()],
            "digests": compute_digests(task),
        }
    )


def test_a_certificate_is_read_as_it_was_written(task: Task) -> None:
    written = make_certificate(task)
    path = write_certificate(task, written)
    assert load_certificate(task, "h200") == written
    assert [item.name for item in path.parent.iterdir()] == ["h200.json"]
    assert json.loads(path.read_text())["schema"] == "kernelquest.certificate/1"


def test_a_certification_that_was_broken_off_goes_on(
    task: Task, verdict: Verdict, monkeypatch: pytest.MonkeyPatch
) -> None:
    replay(monkeypatch, verdict, [14.5, 14.4])
    unfinished: list[Certificate] = []
    certify(task, H200, lambda event: None, keep=lambda _, item: unfinished.append(item))
    write_certificate(task, unfinished[0])
    assert not is_certified(task, H200)
    earlier = list_earlier(task, H200)
    replay(monkeypatch, verdict, [14.4])
    certificate, _ = certify(task, H200, lambda event: None, earlier=earlier)
    assert [item.speedup for item in certificate.sessions] == [14.5, 14.4]
    assert certificate.target == 13.5
    write_certificate(task, certificate)
    assert is_certified(task, H200)
    assert list_earlier(task, H200) == []


def test_sessions_of_other_files_do_not_count(task: Task, verdict: Verdict, monkeypatch: pytest.MonkeyPatch) -> None:
    replay(monkeypatch, verdict, [14.5, 14.4])
    certify(task, H200, lambda event: None, keep=write_certificate)
    assert len(list_earlier(task, H200)) == 1
    (task.path / "certified.py").write_text("# faster\n")
    assert list_earlier(task, H200) == []


def test_words_may_be_mended_and_what_is_measured_may_not(task: Task) -> None:
    write_certificate(task, make_certificate(task))
    assert is_certified(task, H200)
    path = task.path / "task.toml"
    path.write_text(path.read_text().replace('description = "scores"', 'description = "the scores"'))
    assert is_certified(load_task_folder(task.path), H200)
    path.write_text(path.read_text().replace("M = 8192", "M = 4096"))
    changed = load_task_folder(task.path)
    certificate = load_certificate(changed, "h200")
    assert certificate is not None
    assert list_changed(changed, certificate) == ["task.toml"]
    assert not is_certified(changed, H200)


def test_a_solution_that_changed_has_to_be_certified_again(task: Task) -> None:
    assert not is_certified(task, H200)
    write_certificate(task, make_certificate(task))
    (task.path / "certified.py").write_text("# faster\n")
    assert not is_certified(task, H200)
