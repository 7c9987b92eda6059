"""Where the time goes: kernels or operators of the reference, or of a submission, against the task's floor."""

from __future__ import annotations

from pathlib import Path

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch.profiler import ProfilerActivity

from verifier.environment import EnvironmentSpecification
from verifier.floor import compute_floor
from verifier.judge import Plan, ignore, verify
from verifier.limits import choose_limits
from verifier.modules import load_task_modules
from verifier.task import Task
from verifier.verdict import Gate, Verdict

WARM_UPS = 3
SEED = 1


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, serialize_by_alias=True)


class ProfileRow(Model):
    """What ran under one name in a call."""

    name: str
    calls: int
    milliseconds: float | None = Field(None, description="where it can be measured")
    operations: int | None = Field(None, description="where nothing is timed: arithmetic ones, and elements moved")
    share: float
    own: bool = Field(default=False, description="whether it is a kernel of the submission's own")


class Profile(Model):
    """One call of the reference, or of a file."""

    schema_id: str = Field("kernelquest.profile/1", alias="schema")
    task: str
    environment: str
    subject: str
    measure: str = Field(description="what the shares are of")
    milliseconds: float | None = Field(None, description="of everything that ran in the call")
    floor_ms: float | None = Field(None, description="below this no result can be real")
    bound: str = Field("", description="what binds the floor: bytes or operations")
    rows: list[ProfileRow]
    error: str = ""


def profile_reference(task: Task, environment: EnvironmentSpecification, trace: Path | None = None) -> Profile:
    """Profile one eager call of the reference; with `trace`, write a file for a trace viewer too."""
    modules = load_task_modules(task)
    timed = environment.timed
    where = torch.device("cuda" if timed else "cpu")
    dims = task.specification.dims.timed if timed else task.specification.dims.small
    torch.manual_seed(SEED)
    model = modules.reference.Model(*modules.get_init_inputs(dims)).to(where).eval()
    generator = torch.Generator(where).manual_seed(SEED)
    inputs = modules.generate(task.specification.distributions[0].name, dims, generator)
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if timed else [])]
    with torch.no_grad():
        for _ in range(WARM_UPS):
            model(*inputs.values())
        with torch.profiler.profile(activities=activities) as profiler:
            model(*inputs.values())
            if timed:
                torch.cuda.synchronize()
    if trace is not None:
        profiler.export_chrome_trace(str(trace))
    times = {}
    for event in profiler.key_averages():
        own = event.self_device_time_total if timed else event.self_cpu_time_total
        if own > 0 and (not timed or event.device_type == torch.autograd.DeviceType.CUDA):
            times[event.key] = (event.count, own / 1e3)
    total = sum(time for _, time in times.values())
    rows = [
        ProfileRow(name=name, calls=calls, milliseconds=round(time, 6), share=time / total)
        for name, (calls, time) in sorted(times.items(), key=lambda item: -item[1][1])
    ]
    measure = "time of the GPU" if timed else "time of the processor, at the small dims: no measure of a GPU"
    return make_profile(task, environment, "the reference, eager", measure, rows, round(total, 6))


def profile_file(task: Task, data: bytes, name: str, environment: EnvironmentSpecification) -> Profile:
    """Profile one call of a submission, in the verifier's sandbox. Raises SandboxUnavailable."""
    plan = Plan(choose_limits(environment), rounds=0, gates=frozenset({Gate.INTAKE, Gate.STRUCTURAL}))
    verdict = verify(task, data, environment, ignore, plan)
    rows = list_timed(verdict) or list_counted(verdict)
    timed = any(row.milliseconds is not None for row in rows)
    total = round(sum(row.milliseconds or 0.0 for row in rows), 6) if timed else None
    measure = "time of the GPU" if timed else "operations at the small dims: nothing is timed here"
    error = verdict.evidence.error if not rows else ""
    return make_profile(task, environment, name, measure, rows, total).model_copy(update={"error": error})


def list_timed(verdict: Verdict) -> list[ProfileRow]:
    """Return what the GPU's profiler saw."""
    return [
        ProfileRow(name=item.name, calls=item.launches, milliseconds=item.milliseconds, share=item.share, own=item.own)
        for item in verdict.evidence.activities
    ]


def list_counted(verdict: Verdict) -> list[ProfileRow]:
    """Return the kernels and library operators of a call, by what they did."""
    found = [(item.name, item.launches, item.operations, item.own) for item in verdict.evidence.kernels]
    found += [(item.name, item.calls, item.operations, False) for item in verdict.evidence.library]
    total = sum(operations for _, _, operations, _ in found) or 1
    return [
        ProfileRow(name=name, calls=calls, operations=operations, share=operations / total, own=own)
        for name, calls, operations, own in sorted(found, key=lambda item: -item[2])
    ]


def make_profile(  # noqa: PLR0913, PLR0917 - all of one call
    task: Task,
    environment: EnvironmentSpecification,
    subject: str,
    measure: str,
    rows: list[ProfileRow],
    total: float | None,
) -> Profile:
    """Return a profile with the floor of its task where there is one."""
    timed = environment.timed
    floor = compute_floor(task.specification, environment.device, task.specification.dims.timed) if timed else None
    return Profile(
        task=task.id,
        environment=environment.slug,
        subject=subject,
        measure=measure,
        milliseconds=total,
        floor_ms=None if floor is None else round(floor.milliseconds, 6),
        bound="" if floor is None else floor.bound,
        rows=rows,
    )
