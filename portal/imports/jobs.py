"""Reads a job directory of Harbor, as agents left it: pure, capped, and through no symbolic link.

The forms are those of Harbor 0.25. Everything in such a directory may come from a submission.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, TypeVar
from uuid import UUID

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from verifier.bundle import MAXIMUM_BYTES

RECORD_CAP = 4 * 2**20
TRAJECTORY_CAP = 8 * 2**20
TRIALS_CAP = 5_000


def assume_utc(moment: datetime) -> datetime:
    """Return a moment in UTC; one without a time zone is taken for such."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


Moment = Annotated[datetime, AfterValidator(assume_utc)]


class JobError(ValueError):
    """Why a directory cannot be read as a job. The message says what to do."""


class Model(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


RecordT = TypeVar("RecordT", bound=Model)


class Timing(Model):
    started_at: Moment | None = None
    finished_at: Moment | None = None

    @property
    def seconds(self) -> float | None:
        """How long it took, where both ends are known."""
        if self.started_at is None or self.finished_at is None:
            return None
        return (self.finished_at - self.started_at).total_seconds()


class ModelInfo(Model):
    name: str = Field(max_length=200)
    provider: str | None = Field(None, max_length=120)


class AgentInfo(Model):
    name: str = Field(max_length=120)
    version: str = Field("", max_length=60)
    model_info: ModelInfo | None = None


class AgentResult(Model):
    n_input_tokens: int | None = Field(None, ge=0, lt=2**62, description="those from a cache included")
    n_cache_tokens: int | None = Field(None, ge=0, lt=2**62)
    n_output_tokens: int | None = Field(None, ge=0, lt=2**62)
    cost_usd: float | None = Field(None, ge=0, lt=1e7)


class VerifierResult(Model):
    rewards: dict[str, float] | None = None


class ExceptionInfo(Model):
    exception_type: str = Field(max_length=120)


class AgentConfig(Model):
    override_timeout_sec: float | None = None
    max_timeout_sec: float | None = None


class EnvironmentConfig(Model):
    override_cpus: float | None = None
    override_memory_mb: int | None = None
    override_gpus: int | None = None


class SourceTrial(Model):
    trial_id: UUID | None = None


class TrialConfig(Model):
    timeout_multiplier: float | None = None
    agent_timeout_multiplier: float | None = None
    agent: AgentConfig = AgentConfig()
    environment: EnvironmentConfig = EnvironmentConfig()
    source_trial: SourceTrial | None = None


class TrialResult(Model):
    """The parts of a trial's result.json that count."""

    id: UUID
    task_name: str = Field(max_length=200)
    trial_name: str = Field(max_length=200)
    config: TrialConfig = TrialConfig()
    agent_info: AgentInfo
    agent_result: AgentResult | None = None
    verifier_result: VerifierResult | None = None
    verifier_environment_mode: str | None = None
    exception_info: ExceptionInfo | None = None
    started_at: Moment | None = None
    agent_execution: Timing | None = None


class TaskLock(Model):
    digest: str = ""


class TrialLock(Model):
    task: TaskLock = TaskLock()


class JobResult(Model):
    id: UUID


@dataclass(frozen=True)
class Trial:
    """One trial: what Harbor recorded, the digest of its task, and what the agent left."""

    folder: str
    result: TrialResult
    digest: str
    artifact: bytes | None
    trajectory: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Job:
    """A job and its finished trials; and those of its folders that are none, each with the reason."""

    id: UUID
    name: str
    trials: list[Trial]
    unfinished: list[tuple[str, str]]


def read_file(path: Path, cap: int) -> bytes | None:
    """Return the bytes of a regular file, or None when there is none. Raises JobError for a link or too many bytes."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise JobError(f"{path.name} cannot be read as a regular file: {error.strerror}") from error
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise JobError(f"{path.name} is no regular file")
        data = file.read(cap + 1)
    if len(data) > cap:
        raise JobError(f"{path.name} has more than {cap:,} bytes")
    return data


def parse(kind: type[RecordT], data: bytes | None, name: str) -> RecordT:
    """Return a record. Raises JobError when it is missing or of another form."""
    if data is None:
        raise JobError(f"{name} is missing")
    try:
        return kind.model_validate_json(data)
    except ValidationError as error:
        first = error.errors()[0]
        raise JobError(f"{name}: {'.'.join(map(str, first['loc']))}: {first['msg']}"[:300]) from error


def read_job(folder: Path) -> Job:
    """Read a job. Raises JobError when `folder` is none."""
    if not folder.is_dir():
        raise JobError(f"{folder} is no directory. Name one job, such as jobs/2026-11-30__12-00-00.")
    job = parse(JobResult, read_file(folder / "result.json", RECORD_CAP), "result.json")
    trials: list[Trial] = []
    unfinished: list[tuple[str, str]] = []
    for place in list_folders(folder):
        try:
            trials.append(read_trial(place))
        except JobError as error:
            unfinished.append((place.name, str(error)))
    return Job(job.id, folder.resolve().name, trials, unfinished)


def list_folders(folder: Path) -> Iterator[Path]:
    """Yield the folders of trials by name. Raises JobError when there are too many."""
    found = sorted(path for path in folder.iterdir() if path.is_dir() and not path.is_symlink())
    if len(found) > TRIALS_CAP:
        raise JobError(f"The job has {len(found):,} trials; at most {TRIALS_CAP:,} are read. Import its parts.")
    yield from found


def read_trial(folder: Path) -> Trial:
    """Read one trial. Raises JobError for one that did not finish, or whose records have another form."""
    result = parse(TrialResult, read_file(folder / "result.json", RECORD_CAP), "result.json")
    lock = read_file(folder / "lock.json", RECORD_CAP)
    digest = parse(TrialLock, lock, "lock.json").task.digest if lock is not None else ""
    notes: list[str] = []
    artifact = None
    # What the agent left may be anything; then it left no solution.
    submission = folder / "artifacts" / "submission"
    try:
        if not (folder / "artifacts").is_symlink() and not submission.is_symlink():
            artifact = read_file(submission / "solution.py", MAXIMUM_BYTES)
    except JobError as error:
        notes.append(f"No solution: {error}.")
    return Trial(folder.name, result, digest, artifact, read_trajectory(folder, notes), tuple(notes))


def read_trajectory(folder: Path, notes: list[str]) -> str:
    """Return the trajectory as JSON in ASCII, or an empty text with a note."""
    try:
        if (folder / "agent").is_symlink():
            return ""
        data = read_file(folder / "agent" / "trajectory.json", TRAJECTORY_CAP)
        # In ASCII, so that a database can keep whatever characters are in it.
        return "" if data is None else json.dumps(json.loads(data), separators=(",", ":"))
    except JobError as error:
        notes.append(f"The trajectory is not kept: {error}.")
    except (ValueError, RecursionError):
        notes.append("The trajectory is not kept: it is no JSON.")
    return ""
