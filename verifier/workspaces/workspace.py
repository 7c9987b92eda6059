"""An agent's workspace: one task's visible part, a budget of time, attempts, and the artifact that counts in the end."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

from filelock import FileLock
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from verifier.bundle import check_bytes
from verifier.reward import compute_reward
from verifier.task import Task, load_task_folder
from verifier.verdict import FailureCode, Outcome, Verdict
from verifier.workspaces.public import write_public_task

STATE = ".kq"
SETTINGS, ATTEMPTS, CHECKS = "workspace.json", "attempts.jsonl", "checks.jsonl"
SOLUTION = "solution.py"
SUBMISSION = "submission"
DEFAULT_HOURS = 1.0

AGENTS = """# {title}

1. Read `instruction.md` and `reference.py`. The target and the time left: `kq workspace status`.
2. Write `solution.py`: one file with `class ModelNew`.
3. `kq check` runs the verifier's gates on visible inputs and names what is wrong, with the worst element.
4. `kq profile` shows where the reference's time goes; `kq profile solution.py` does it for your file.
5. `kq bench {task} solution.py` times it beside eager and compiled PyTorch, with an interval.
6. `kq submit solution.py --note "what changed"` keeps a snapshot and makes it the artifact that counts.
7. `kq history` lists the attempts; `kq reward` estimates the reward from visible inputs.
8. Submit early: the artifact is always the last file that you submitted.
9. Hidden inputs and secret seeds decide later. What holds for all inputs is safe; what fits these is not.
10. Go on from 2 until the time is over. Add --json to any command for one JSON object.
"""


class WorkspaceError(ValueError):
    """Something that cannot be done in a workspace. The message says why, and `fix` what to do."""

    def __init__(self, message: str, fix: str = "") -> None:
        super().__init__(message)
        self.fix = fix


class Model(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, populate_by_name=True, serialize_by_alias=True)


class Settings(Model):
    """The contents of .kq/workspace.json."""

    schema_id: Literal["kernelquest.workspace/1"] = Field("kernelquest.workspace/1", alias="schema")
    task: str
    environment: str
    target: float | None = Field(None, description="the certified target in that environment")
    created_at: datetime
    ends_at: datetime


class CheckRecord(Model):
    """What the gates said of one file, on visible inputs."""

    at: datetime
    sha256: str
    environment: str
    outcome: Outcome
    failures: list[FailureCode]
    speedup: float | None = Field(None, description="over the faster of eager and compiled PyTorch, where it was timed")
    reward: float | None = Field(None, description="an estimate: hidden inputs decide")


class Attempt(Model):
    """One submitted snapshot."""

    number: int
    at: datetime
    sha256: str
    file: str
    note: str = ""


class Workspace:
    """A folder that `create` has made."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.folder, self.settings = folder, settings
        self.state = folder / STATE

    @property
    def task(self) -> Task:
        """The visible part of the task. Raises TaskError when somebody changed it into none."""
        (path,) = self.state.glob("tasks/l[1-4]/*")
        return load_task_folder(path)

    @property
    def artifact(self) -> Path:
        """The file that counts in the end."""
        return self.folder / SUBMISSION / SOLUTION

    def measure_left(self, now: datetime | None = None) -> timedelta:
        """Return the time that is left, at least none."""
        return max(timedelta(), self.settings.ends_at - (now or datetime.now(UTC)))

    def keep_check(self, data: bytes, verdict: Verdict) -> CheckRecord:
        """Add what the gates said of a file to the record of checks, and return it."""
        speedup = verdict.measured_speedup
        record = CheckRecord(
            at=datetime.now(UTC),
            sha256=digest(data),
            environment=verdict.environment,
            outcome=verdict.outcome,
            failures=verdict.failures,
            speedup=speedup,
            reward=compute_reward(verdict.failures, speedup, self.settings.target),
        )
        append(self.state / CHECKS, record)
        return record

    def list_checks(self) -> list[CheckRecord]:
        """Return all checks, the oldest first."""
        return [CheckRecord.model_validate_json(line) for line in read_lines(self.state / CHECKS)]

    def list_attempts(self) -> list[Attempt]:
        """Return all attempts, the oldest first."""
        return [Attempt.model_validate_json(line) for line in read_lines(self.state / ATTEMPTS)]

    def find_check(self, sha256: str) -> CheckRecord | None:
        """Return the last check of a file that was timed, or else the last one."""
        found = [record for record in self.list_checks() if record.sha256 == sha256]
        timed = [record for record in found if record.speedup is not None]
        chosen = timed or found
        return chosen[-1] if chosen else None

    def submit(self, data: bytes, note: str = "") -> Attempt:
        """Keep a snapshot of a file and make it the artifact. Raises WorkspaceError when the time is over.

        Raises BundleError for bytes that are no submission; then nothing changes.
        """
        check_bytes(data)
        if not self.measure_left():
            raise WorkspaceError(
                f"the time was over at {self.settings.ends_at:%H:%M:%S} UTC", "what was submitted before counts"
            )
        with FileLock(self.state / "lock"):
            number = len(self.list_attempts()) + 1
            snapshot = self.state / "attempts" / f"{number:04}.py"
            snapshot.parent.mkdir(exist_ok=True)
            replace(snapshot, data)
            replace(self.artifact, data)
            attempt = Attempt(
                number=number,
                at=datetime.now(UTC),
                sha256=digest(data),
                file=str(snapshot.relative_to(self.folder)),
                note=note,
            )
            append(self.state / ATTEMPTS, attempt)
        return attempt


def digest(data: bytes) -> str:
    """Return the SHA-256 of some bytes."""
    return hashlib.sha256(data).hexdigest()


def replace(path: Path, data: bytes) -> None:
    """Write a file, whole or not at all: whoever reads it meanwhile sees the old one or the new one."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".unfinished-")
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    Path(name).chmod(0o644)
    Path(name).replace(path)


def append(path: Path, record: BaseModel) -> None:
    """Add one line to a log."""
    with path.open("a", encoding="utf-8") as file:
        file.write(record.model_dump_json() + "\n")


def read_lines(path: Path) -> Iterator[str]:
    """Yield the whole lines of a log; one that is still being written is left out."""
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    yield from (line for line in text.splitlines(keepends=True) if line.endswith("\n"))


def create(task: Task, folder: Path, environment: str, target: float | None, hours: float = DEFAULT_HOURS) -> Workspace:
    """Make a workspace for a task in a new or empty folder. Raises WorkspaceError when something is there already."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise WorkspaceError(f"{folder} is not empty, and nothing is overwritten", "name a new folder")
    now = datetime.now(UTC)
    settings = Settings(
        task=task.id, environment=environment, target=target, created_at=now, ends_at=now + timedelta(hours=hours)
    )
    (folder / STATE).mkdir(parents=True)
    public = write_public_task(task, folder / STATE / "tasks")
    for name in ("instruction.md", "reference.py"):
        shutil.copyfile(public.path / name, folder / name)
    # There is no artifact before the first submission, so that none can be told from a wrong one.
    (folder / SUBMISSION).mkdir()
    agents = AGENTS.format(title=task.specification.title, task=task.id)
    (folder / "AGENTS.md").write_text(agents, encoding="utf-8")
    # Last, so that a workspace that was broken off is none.
    (folder / STATE / SETTINGS).write_text(settings.model_dump_json(indent=2) + "\n", encoding="utf-8")
    return Workspace(folder, settings)


def open_workspace(folder: Path) -> Workspace | None:
    """Return the workspace that `folder` is or lies in, or None. Raises WorkspaceError for one that is damaged."""
    for place in (folder.resolve(), *folder.resolve().parents):
        path = place / STATE / SETTINGS
        if path.is_file():
            try:
                return Workspace(place, Settings.model_validate_json(path.read_bytes()))
            except (ValidationError, json.JSONDecodeError) as error:
                raise WorkspaceError(f"{path} is damaged", "make a new workspace, and copy your files there") from error
    return None
