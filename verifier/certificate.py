"""A certificate: what a certified solution measured in one environment, and the target that follows from it.

`kq certify` writes them, and nobody else.
"""

from __future__ import annotations

import hashlib
import json
from datetime import datetime
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, model_validator

from verifier.task import Task, TaskError

# Of task.toml these parts decide what is measured; titles, descriptions and reasons may be mended at any time.
MEASURED_PARTS = (
    "id", "dtype", "timing_mode", "dims", "inputs", "parameters", "outputs", "distributions", "tolerance", "floor", "structure",
)  # fmt: skip
WORDS = {"description", "note", "why", "none_because"}
MEASURED_FILES = ("reference.py", "hidden.py", "certified.py")
SPECIFICATION = "task.toml"


class Session(BaseModel):
    """One verification of the certified solution. Times are means of its timed calls, in milliseconds."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    started_at: datetime | None = None
    seconds: float | None = None
    eager_ms: float = Field(gt=0)
    compiled_ms: float | None = Field(None, gt=0)
    certified_ms: float = Field(gt=0)
    baseline: Literal["eager", "compiled"] | None = None
    speedup: float | None = Field(None, gt=0)
    speedup_interval: tuple[float, float] | None = Field(None, description="95 % interval")
    cv: float | None = Field(None, description="standard deviation of the certified times over their mean")
    own_share: float | None = Field(None, description="own kernels' share of the GPU's time")
    budget_ratio: float | None = Field(None, description="largest error over the error allowed, of all distributions")
    reference_ratio: float | None = Field(None, description="the same for the eager reference")
    peak_clock_mhz: int | None = None


class Certificate(BaseModel):
    """The contents of certificates/<environment>.json."""

    model_config = ConfigDict(extra="ignore", frozen=True, populate_by_name=True, serialize_by_alias=True)

    schema_id: Literal["kernelquest.certificate/1"] = Field(alias="schema")
    task: str = ""
    environment: str = ""
    certified: bool = True
    finished: bool = Field(
        default=True, description="whether every session that decides was measured; else it can be resumed"
    )
    reason: str = Field("", description="why the task has no target here")
    target: float | None = Field(None, gt=0, allow_inf_nan=False)
    margin: float | None = Field(None, description="by how much the last session cleared the target: 0.07 is 7 %")
    floor_ms: float | None = None
    sessions: list[Session] = []
    date: str = ""
    verifier_version: str = ""
    versions: dict[str, str] = {}
    gpu: dict[str, str] = {}
    digests: dict[str, str] = Field({}, description="SHA-256 of everything that entered, by file")

    @model_validator(mode="after")
    def check_target(self) -> Certificate:
        if self.certified and self.target is None:
            raise ValueError("a certified task has a target")
        if not self.certified and (self.target is not None or not self.reason):
            raise ValueError("a task that is not certified has a reason, and no target")
        return self


def find_certificate(task: Task, environment: str) -> Path:
    """Return where a task's certificate lies."""
    return task.path / "certificates" / f"{environment}.json"


def load_certificate(task: Task, environment: str) -> Certificate | None:
    """Return the certificate of a task in an environment, or None when there is none yet. Raises TaskError."""
    path = find_certificate(task, environment)
    if not path.is_file():
        return None
    try:
        return Certificate.model_validate_json(path.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        raise TaskError(path, ".".join(map(str, first["loc"])), first["msg"]) from error


def write_certificate(task: Task, certificate: Certificate) -> Path:
    """Write a certificate, whole or not at all, and return its path."""
    path = find_certificate(task, certificate.environment)
    path.parent.mkdir(exist_ok=True)
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_text(certificate.model_dump_json(indent=2) + "\n", encoding="utf-8")
    return unfinished.replace(path)


def strip_words(value: JsonValue) -> JsonValue:
    """Return nested data without the texts that only explain."""
    if isinstance(value, dict):
        return {key: strip_words(item) for key, item in value.items() if key not in WORDS}
    return [strip_words(item) for item in value] if isinstance(value, list) else value


def compute_digests(task: Task) -> dict[str, str]:
    """Return the SHA-256 of each file that enters a certification; of task.toml, of what is measured by it."""
    measured = strip_words(task.specification.model_dump(mode="json", include=set(MEASURED_PARTS)))
    contents = {name: (task.path / name).read_bytes() for name in MEASURED_FILES if (task.path / name).is_file()}
    contents[SPECIFICATION] = json.dumps(measured, sort_keys=True).encode()
    return {name: hashlib.sha256(content).hexdigest() for name, content in sorted(contents.items())}


def list_changed(task: Task, certificate: Certificate) -> list[str]:
    """Return the files that are no longer what was certified."""
    found = compute_digests(task)
    return sorted(name for name, digest in certificate.digests.items() if found.get(name) != digest)
