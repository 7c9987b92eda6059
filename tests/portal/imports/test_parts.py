"""The parts of an import that need no database: the job's form, the policy, and the timeline."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from portal.imports.jobs import JobError, read_job
from portal.imports.policy import Fate, Known, decide
from portal.imports.templatetags.imports_display import since
from portal.imports.trajectory import MOMENTS_CAP, build_timeline
from tests.portal.imports.jobs import BEGAN, DIGEST, ENDS, NAME, STEPS, write_job, write_trial

KNOWN = {NAME: Known("l1-09", DIGEST)}


def test_each_end_of_a_trial_has_its_fate(tmp_path: Path) -> None:
    trials = read_job(write_job(tmp_path / "job")).trials
    found = [decide(trial, KNOWN) for trial in trials]
    assert [decision.fate for decision in found] == [Fate.SCORE] * 5 + [Fate.RUN_AGAIN] * 7
    assert [number for number, decision in enumerate(found) if decision.flagged] == [4]
    assert len(trials) == len(ENDS) == 12
    assert trials[3].artifact is None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"task_name": "kernelquest/l9-99-unknown"}, "has no task"),
        ({"verifier_environment_mode": "shared"}, "the mode shared"),
        ({"verifier_environment_mode": None}, "the mode unknown"),
        ({"config": {"agent_timeout_multiplier": 2.0}}, "agent_timeout_multiplier 2"),
        ({"config": {"agent": {"override_timeout_sec": 7200}}}, "override_timeout_sec 7200"),
        ({"config": {"environment": {"override_gpus": 4}}}, "override_gpus 4"),
        ({"config": {"source_trial": {"action": "regrade", "type": "local", "path": "x"}}}, "a regrade"),
    ],
)
def test_what_is_not_comparable_is_refused(tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    write_job(tmp_path, 0)
    write_trial(tmp_path, 0, **changes)
    decision = decide(read_job(tmp_path).trials[0], KNOWN)
    assert decision.fate is Fate.REFUSE
    assert reason in decision.reason


def test_a_task_that_is_another_or_has_changed_is_refused(tmp_path: Path) -> None:
    trial = read_job(write_job(tmp_path, 1)).trials[0]
    for known, reason in (
        (Known("l1-09", "sha256:00"), "digests differ"),
        (Known("l1-09", DIGEST, "l1-09 has changed"), "has changed"),
    ):
        decision = decide(trial, {NAME: known})
        assert (decision.fate, reason in decision.reason) == (Fate.REFUSE, True)


def test_what_is_no_trial_is_left_out_with_its_reason(tmp_path: Path) -> None:
    job = write_job(tmp_path / "job", 1)
    (job / "unfinished").mkdir()
    damaged = write_trial(job, 5)
    (damaged / "result.json").write_text('{"id": "x"}')
    found = read_job(job)
    assert len(found.trials) == 1
    reasons = dict(found.unfinished)
    assert reasons["unfinished"] == "result.json is missing"
    assert "result.json: id" in reasons[damaged.name]
    for place in (tmp_path, tmp_path / "missing"):
        with pytest.raises(JobError):
            read_job(place)


def test_no_link_is_followed_and_nothing_too_large_is_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("password")
    job = write_job(tmp_path / "job", 3)
    linked, moved, large = sorted(path for path in job.iterdir() if path.is_dir())
    for path in (linked / "artifacts" / "submission" / "solution.py", linked / "agent" / "trajectory.json"):
        path.unlink()
        path.symlink_to(secret)
    (moved / "artifacts" / "submission" / "solution.py").rename(tmp_path / "solution.py")
    (moved / "artifacts" / "submission").rmdir()
    (moved / "artifacts" / "submission").symlink_to(tmp_path)
    (large / "artifacts" / "submission" / "solution.py").write_bytes(b"#" * 300_000)
    (large / "agent" / "trajectory.json").write_text("[" * 100_000)
    trials = read_job(job).trials
    assert [trial.artifact for trial in trials] == [None, None, None]
    assert (trials[0].trajectory, trials[2].trajectory) == ("", "")
    assert "more than 262,144 bytes" in trials[2].notes[0]
    assert "it is no JSON" in trials[2].notes[1]
    assert len(trials[0].notes) == 2


def test_a_timeline_marks_when_the_verifier_was_asked() -> None:
    timeline = build_timeline(json.dumps({"steps": STEPS}))
    assert timeline is not None
    assert [moment.marks for moment in timeline.moments] == [[], ["profile", "check"], ["submit"]]
    assert timeline.moments[1].calls[1] == "bash: kq check solution.py"
    assert (timeline.moments[0].at, timeline.total, timeline.marked) == (None, 3, 2)


@pytest.mark.parametrize("command", ["cat notes/kq check", "mykq check", "kq status", "./kq checked"])
def test_what_only_looks_like_a_command_is_not_marked(command: str) -> None:
    steps = [{"source": "agent", "tool_calls": [{"function_name": "bash", "arguments": {"command": command}}]}]
    timeline = build_timeline(json.dumps({"steps": steps}))
    assert timeline is not None
    assert timeline.marked == 0


@pytest.mark.parametrize(
    "text", ["", "null", "[]", "{}", '{"steps": 7}', '{"steps": [7, null]}', "{" * 50, '{"steps": []}']
)
def test_what_is_no_trajectory_shows_nothing(text: str) -> None:
    assert build_timeline(text) is None


def test_odd_steps_are_shown_as_far_as_they_can_be() -> None:
    steps = [
        {"source": "robot", "message": [{"type": "text", "text": "a\x00b\u202e"}, 3], "timestamp": "yesterday"},
        {
            "message": {"x": 1},
            "tool_calls": [None, {"arguments": [1]}, {"function_name": "bash", "arguments": {"a": "x" * 9_000}}],
        },
    ]
    timeline = build_timeline(json.dumps({"steps": steps}))
    assert timeline is not None
    first, second = timeline.moments
    assert (first.source, first.text, first.at) == ("Other", "a b", None)
    assert second.calls[0] == ": [1]"
    assert len(second.calls[1]) < 700


def test_of_a_long_trajectory_the_marked_steps_are_kept() -> None:
    plain = [{"source": "agent", "message": "again"}] * 2_000
    timeline = build_timeline(json.dumps({"steps": [*plain, STEPS[2]]}))
    assert timeline is not None
    assert (len(timeline.moments), timeline.total) == (MOMENTS_CAP, 2_001)
    assert timeline.moments[-1].marks == ["submit"]


def test_a_moment_is_told_after_the_beginning_or_not_at_all() -> None:
    assert since(BEGAN + timedelta(minutes=61, seconds=5), BEGAN) == "61:05"
    for moment, start in ((None, BEGAN), (BEGAN, None), (BEGAN - timedelta(seconds=1), BEGAN)):
        assert since(moment, start) == "\u2013"
