"""An invented job of Harbor: twelve trials, one of each way in which a trial ends."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from tests.portal.factories import SOURCE
from verifier.task import REQUIRED_FILES, find_tasks_root

DIGEST = f"sha256:{'ab' * 32}"
NAME = "kernelquest/l1-09-sparsemax-rows"
BEGAN = datetime(2026, 11, 1, 12, 0, tzinfo=UTC)
STEPS = [
    {"step_id": 1, "source": "user", "message": "Write a faster kernel."},
    {
        "step_id": 2,
        "source": "agent",
        "timestamp": "2026-11-01T12:03:30Z",
        "message": "I look first.",
        "tool_calls": [
            {
                "tool_call_id": "1",
                "function_name": "bash",
                "arguments": {"command": "cd /workspace && kq profile --top 5"},
            },
            {"tool_call_id": "2", "function_name": "bash", "arguments": {"command": "kq check solution.py"}},
        ],
    },
    {
        "step_id": 3,
        "source": "agent",
        "timestamp": "2026-11-01T12:12:05Z",
        "message": "Good.",
        "tool_calls": [
            {"tool_call_id": "3", "function_name": "bash", "arguments": {"command": "kq submit solution.py"}}
        ],
    },
]
# What ended each trial, whether it was rewarded, and whether it left a solution.
ENDS: list[tuple[str, bool, bool]] = [
    ("", True, True),
    ("AgentTimeoutError", True, True),
    ("ContextWindowExceededError", True, True),
    ("AgentSafetyRefusalError", True, False),
    ("NonZeroAgentExitCodeError", True, True),
    ("NonZeroAgentExitCodeError", False, True),
    ("EnvironmentStartTimeoutError", False, False),
    ("ApiRateLimitError", True, True),
    ("AgentAuthenticationError", False, False),
    ("VerifierTimeoutError", False, True),
    ("CancelledError", False, False),
    ("SomethingNobodyKnowsError", True, True),
]


def write_package(folder: Path, **changes: Any) -> Path:
    """Write a manifest of l1-09 as it lies on disk, and return the folder."""
    source = find_tasks_root() / "l1" / "sparsemax-rows"
    files = {name: hashlib.sha256((source / name).read_bytes()).hexdigest() for name in REQUIRED_FILES}
    task = {"task": "l1-09", "name": NAME, "folder": "l1-09-sparsemax-rows", "digest": DIGEST, "files": files} | changes
    manifest = {"schema": "kernelquest.package/1", "environment": "cpu-interpreter", "official": True, "tasks": [task]}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "kernelquest.json").write_text(json.dumps(manifest))
    return folder


def write_job(folder: Path, trials: int = len(ENDS)) -> Path:
    """Write the first trials of the job, and return its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "result.json").write_text(json.dumps({"id": str(UUID(int=7)), "n_total_trials": trials}))
    for number, (exception, rewarded, left) in enumerate(ENDS[:trials]):
        write_trial(folder, number, exception, rewarded=rewarded, left=left)
    return folder


def write_trial(
    job: Path, number: int, exception: str = "", *, rewarded: bool = True, left: bool = True, **changes: Any
) -> Path:
    """Write one trial, with fields of its result changed, and return its folder."""
    name = f"l1-09-sparsemax-rows__{number:07}"
    began = BEGAN + timedelta(hours=number)
    result = {
        "id": str(UUID(int=1_000 + number)),
        "task_name": NAME,
        "trial_name": name,
        "config": {"timeout_multiplier": 1.0, "agent": {"name": "claude-code", "kwargs": {}}, "environment": {}},
        "agent_info": {
            "name": "claude-code",
            "version": "2.1.0",
            "model_info": {"name": "model-5", "provider": "vendor"},
        },
        "agent_result": {
            "n_input_tokens": 120_000,
            "n_cache_tokens": 90_000,
            "n_output_tokens": 8_000,
            "cost_usd": 1.25,
        },
        "verifier_result": {"rewards": {"reward": 0.5, "accepted": 1.0}} if rewarded else None,
        "verifier_environment_mode": "separate",
        "exception_info": {"exception_type": exception, "exception_message": "x"} if exception else None,
        "started_at": began.isoformat(),
        "finished_at": (began + timedelta(hours=2)).isoformat(),
        "agent_execution": {
            "started_at": began.isoformat(),
            "finished_at": (began + timedelta(minutes=30 + number)).isoformat(),
        },
    } | changes
    folder = job / name
    for part in ("agent", "artifacts/submission"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    (folder / "result.json").write_text(json.dumps(result))
    (folder / "lock.json").write_text(json.dumps({"task": {"name": NAME, "digest": DIGEST}}))
    (folder / "agent" / "trajectory.json").write_text(json.dumps({"schema_version": "ATIF-v1.8", "steps": STEPS}))
    if left:
        (folder / "artifacts" / "submission" / "solution.py").write_text(f"{SOURCE}# {number}\n")
    return folder
