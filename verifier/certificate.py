"""A certificate: what a certified solution measured in one environment, and the target that follows from it."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from verifier.task import Task, TaskError


class Certificate(BaseModel):
    """The part of certificates/<environment>.json that a verification needs; the rest is kept as it is."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    schema_id: Literal["kernelquest.certificate/1"] = Field(alias="schema")
    target: float = Field(gt=0)


def load_certificate(task: Task, environment: str) -> Certificate | None:
    """Return the certificate of a task in an environment, or None when there is none yet. Raises TaskError."""
    path = task.path / "certificates" / f"{environment}.json"
    if not path.is_file():
        return None
    try:
        return Certificate.model_validate_json(path.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        raise TaskError(path, ".".join(map(str, first["loc"])), first["msg"]) from error
