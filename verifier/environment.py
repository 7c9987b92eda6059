"""An environment: one kind of GPU with pinned software, in which a verdict or a target is valid."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from verifier.task import TaskError, find_tasks_root, parse_toml


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Device(Model):
    """The GPU: rates are peaks in the units that their names say."""

    name: str
    compute_capability: Annotated[int, Field(ge=70, le=130)]
    memory_gigabytes_per_second: float = Field(gt=0)
    l2_bytes: int = Field(gt=0)
    shared_bytes_per_block: int = Field(gt=0)
    fp32_teraflops: float = Field(gt=0)
    fp16_teraflops: float = Field(gt=0)
    multiprocessors: int = Field(gt=0)
    maximum_clock_megahertz: int = Field(gt=0)
    memory_bytes: int = Field(gt=0)


class Versions(Model):
    """Exact versions that a verdict or certificate of this environment needs."""

    python: str
    torch: str
    triton: str
    cuda: str


class EnvironmentSpecification(Model):
    """The contents of tasks/environments/<slug>.toml."""

    schema_id: Literal["kernelquest.environment/1"] = Field(alias="schema")
    slug: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
    title: str
    description: str
    official: bool = False
    timed: bool = Field(description="False when this environment cannot measure speed")
    dims: Literal["timed", "small"]
    device: Device
    versions: Versions
    clock_policy: str


def load_environment(slug: str, root: Path | None = None) -> EnvironmentSpecification:
    """Return the environment `slug`. Raises TaskError, or KeyError when there is none."""
    path = (root or find_tasks_root()) / "environments" / f"{slug}.toml"
    if not path.is_file():
        raise KeyError(slug)
    try:
        environment = EnvironmentSpecification.model_validate(parse_toml(path))
    except ValidationError as error:
        first = error.errors()[0]
        raise TaskError(path, ".".join(map(str, first["loc"])), first["msg"]) from error
    if environment.slug != slug:
        raise TaskError(path, "slug", f"is {environment.slug!r} but the file is {slug}.toml")
    return environment


def list_environments(root: Path | None = None) -> list[EnvironmentSpecification]:
    """Return all environments by slug."""
    folder = (root or find_tasks_root()) / "environments"
    return [load_environment(path.stem, root) for path in sorted(folder.glob("*.toml"))]
