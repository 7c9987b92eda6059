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

# Local memory, addressed from the frame's register alone: /*02d0*/ @P0 STL.64 [R1+0x8], R4 ;
_FRAME_ACCESS = re.compile(r"\b(LDL|STL)((?:\.\w+)*)\s[^;\[]*\[R1(?:\+(0x[0-9a-f]+))?\]")
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


def list_frame_accesses(sass: str, opcode: str) -> list[range]:
    """Return the bytes of its stack frame that each load (LDL) or store (STL) of a disassembly touches."""
    accesses = []
    for found, suffixes, offset in _FRAME_ACCESS.findall(sass):
        if found == opcode:
            widths = [_WIDTHS[suffix] for suffix in suffixes.split(".") if suffix in _WIDTHS]
            start = int(offset or "0", 16)
            accesses.append(range(start, start + (widths[0] if widths else _REGISTER_BYTES)))
    return accesses


def count_spills(sass: str) -> tuple[int, int]:
    """Return the bytes a thread that a disassembly spills to local memory and reads back, each instruction once.

    Spilled registers lie at fixed places of the frame. Sines and cosines keep a table there too, for large arguments:
    they read it at places that they compute, so a store that nothing reads from a fixed place spills nothing.
    """
    loads = list_frame_accesses(sass, "LDL")
    read = {place for access in loads for place in access}
    stores = [access for access in list_frame_accesses(sass, "STL") if not read.isdisjoint(access)]
    return sum(map(len, stores)), sum(map(len, loads))


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
