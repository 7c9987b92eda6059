"""Whether a solution fits a GPU that is not here: what a dry run reports of its kernels, compiled and not run.

Reading a report imports no torch; `verifier.dry.run` makes it.
"""

from __future__ import annotations

import importlib.metadata
import re
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from verifier.environment import EnvironmentSpecification
from verifier.verdict import FailureCode

_LOCAL = re.compile(r"^\s*(?:/\*[0-9a-f]+\*/)?\s*(?:@!?U?P\w+\s+)?(LDL|STL)((?:\.\w+)*)\s", re.MULTILINE)
_WIDTHS = {"128": 16, "64": 8, "U16": 2, "S16": 2, "U8": 1, "S8": 1}
_REGISTER_BYTES = 4


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, serialize_by_alias=True)


class KernelPortability(Model):
    """One kernel in one configuration, as the compiler made it for the environment's GPU. Sizes in bytes."""

    name: str
    digest: str
    options: dict[str, int | bool] = Field(description="num_warps, num_stages and other options of the compiler")
    grids: list[tuple[int, int, int]] = Field(description="the first few different grids, at the timed dims")
    launches: int = Field(description="in all calls of the dry run, those of an autotuner among them")
    registers: int | None = Field(None, description="a thread")
    spill_stores: int | None = Field(None, description="bytes a thread that store instructions spill to local memory")
    spill_loads: int | None = Field(None, description="bytes a thread that load instructions read back from there")
    shared: int | None = Field(None, description="a program")
    shared_limit: int
    instructions: int | None = None
    tensor_core: dict[str, int] = Field({}, description="tensor-core instructions by opcode")
    narrowing: dict[str, int] = Field({}, description="instructions below the task's precision by opcode")
    failures: list[FailureCode] = []
    error: str = Field("", description="what the compiler said of a kernel that it refused")


class TaskPortability(Model):
    """One solution in a dry run."""

    task: str
    slug: str
    dtype: Literal["fp32", "fp16"]
    ok: bool
    failures: list[FailureCode] = Field(description="the primary one first; spills are reported and fail nothing")
    error: str = Field("", description="why the dry run ended early")
    peak_bytes: int | None = Field(
        None, description="most device memory live at a time: inputs, weights, results, scratch"
    )
    kernels: list[KernelPortability]
    seconds: float


class PortabilityReport(Model):
    """The answer of `kq portability`."""

    schema_id: Literal["kernelquest.portability/1"] = Field("kernelquest.portability/1", alias="schema")
    ok: bool
    environment: str
    architecture: str
    versions: dict[str, str] = Field(description="the software that compiled")
    pinned: bool = Field(description="whether these are the environment's versions")
    tasks: list[TaskPortability]


def count_spills(sass: str) -> tuple[int, int]:
    """Return the bytes a thread that a disassembly stores to and loads from local memory, each instruction once.

    Triton keeps no arrays there, so what lies there was spilled.
    """
    bytes_moved = {"STL": 0, "LDL": 0}
    for opcode, suffixes in _LOCAL.findall(sass):
        widths = [_WIDTHS[suffix] for suffix in suffixes.split(".") if suffix in _WIDTHS]
        bytes_moved[opcode] += widths[0] if widths else _REGISTER_BYTES
    return bytes_moved["STL"], bytes_moved["LDL"]


def report_portability(environment: EnvironmentSpecification, tasks: list[TaskPortability]) -> PortabilityReport:
    """Return the report over tasks that were examined on this host."""
    versions = {name: importlib.metadata.version(name).split("+")[0] for name in ("torch", "triton")}
    return PortabilityReport(
        ok=all(item.ok for item in tasks),
        environment=environment.slug,
        architecture=f"sm_{environment.device.compute_capability}",
        versions=versions,
        pinned=all(getattr(environment.versions, name) == version for name, version in versions.items()),
        tasks=tasks,
    )
