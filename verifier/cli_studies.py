"""``kq study``: measurements of the verifier itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from verifier.exits import Exit
from verifier.terminal import (
    FileArgument,
    JobsOption,
    JsonOption,
    TaskArgument,
    err,
    explain_host,
    fail,
    find_environment,
    find_task,
    out,
)
from verifier.workspaces.workspace import open_workspace

if TYPE_CHECKING:
    from verifier.studies import BenchRow

app = typer.Typer(no_args_is_help=True, help="Measure the verifier itself, on a GPU host.")


def bench(
    task: TaskArgument,
    files: Annotated[list[Path], typer.Argument(help="Submissions to time side by side.")],
    environment: Annotated[str, typer.Option(help="Where to time.")] = "h200",
    rounds: Annotated[int, typer.Option(help="Rounds of 25 calls a side.")] = 1,
    as_json: JsonOption = False,
) -> None:
    """Time files against eager and compiled PyTorch, without the gates of a verification: no verdict follows.

    Each result is compared with the oracle now and then. Exit code 0: all could be timed; 1: some failed.
    """
    from verifier.judge import list_versions
    from verifier.studies import BenchReport
    from verifier.studies import bench as run

    place = open_workspace(Path())
    # A workspace has its task's visible part, and nothing else may be there.
    found = place.task if place and place.settings.task == task else find_task(task, as_json=as_json)
    specification = find_environment(environment, as_json=as_json)
    if not specification.timed:
        raise fail(Exit.USAGE, f"nothing is timed in {environment}", "try: h200", as_json=as_json)
    if missing := [str(file) for file in files if not file.is_file()]:
        raise fail(Exit.USAGE, f"there is no file {missing[0]}", as_json=as_json)
    rows = []
    for row in run(found, files, specification, rounds):
        rows.append(row)
        err.print(describe_bench(row), highlight=False)
    if as_json:
        report = BenchReport(task=found.id, environment=specification.slug, versions=list_versions(), rows=rows)
        print(report.model_dump_json(indent=2))
    raise typer.Exit(Exit.BELOW_TARGET if any(row.error for row in rows) else Exit.OK)


def describe_bench(row: BenchRow) -> str:
    """Return one row in words."""
    if row.interval is None or row.speedup is None or row.candidate_ms is None:
        return f"[bold red]failed[/] {escape(row.file)}: {escape(row.error)}"
    low, high = row.interval
    times = f"{row.candidate_ms:.4f} ms against eager {row.eager_ms:.4f} and compiled {row.compiled_ms:.4f}"
    problem = f" [bold red]{escape(row.error)}[/]" if row.error else ""
    return f"{row.speedup:7.3f} [{low:.3f}, {high:.3f}] {row.judgement:<17} {escape(row.file)}: {times}{problem}"


@app.command("repeat")
def study_repeat(
    task: TaskArgument,
    file: FileArgument,
    times: Annotated[int, typer.Option(help="How many verifications.")] = 10,
    jobs: JobsOption = 1,
    environment: Annotated[str, typer.Option(help="Where to verify.")] = "h200",
    as_json: JsonOption = False,
) -> None:
    """Verify the same file several times: how far apart the speedups are, and whether the verdict ever flips."""
    from verifier.studies import repeat, summarise_repeats

    found, specification = find_task(task, as_json=as_json), find_environment(environment, as_json=as_json)
    repeats = []
    with explain_host(as_json=as_json):
        for item in repeat(found, file, specification, times, jobs):
            repeats.append(item)
            speedup = "not timed" if item.speedup is None else f"{item.speedup:.4f} times as fast"
            err.print(f"{len(repeats)}/{times} {item.outcome} {speedup} ({item.seconds:.1f} s)", highlight=False)
    study = summarise_repeats(found, specification, repeats)
    if as_json:
        print(study.model_dump_json(indent=2))
    else:
        variation = "none" if study.speedup_variation is None else f"{study.speedup_variation:.2%}"
        out.print(
            f"variation {variation}, median {study.median_seconds:.1f} s, {', '.join(study.outcomes)}", highlight=False
        )


@app.command("overhead")
def study_overhead(
    task: TaskArgument,
    file: FileArgument,
    dim: Annotated[str, typer.Option(help="The dim that changes.")],
    sizes: Annotated[str, typer.Option(help="Its values, separated by commas.")],
    environment: Annotated[str, typer.Option(help="Where to verify.")] = "h200",
    as_json: JsonOption = False,
) -> None:
    """Set event time, the judge's clock and profiler time side by side, for a submission and for the baselines."""
    from verifier.judge import list_versions
    from verifier.studies import OverheadStudy, SizeRow, measure_sizes

    found, specification = find_task(task, as_json=as_json), find_environment(environment, as_json=as_json)
    rows: list[SizeRow] = []
    names = [name for name in SizeRow.model_fields if name != "dims"]
    table = Table(dim, *(name.replace("_", " ") for name in names), box=None)
    try:
        for row in measure_sizes(found, file, specification, dim, [int(size) for size in sizes.split(",")]):
            rows.append(row)
            table.add_row(str(row.dims[dim]), *(f"{getattr(row, name):.4f}" for name in names))
    except ValueError as error:
        raise fail(Exit.USAGE, str(error), as_json=as_json) from None
    study = OverheadStudy(task=found.id, environment=specification.slug, versions=list_versions(), rows=rows)
    if as_json:
        print(study.model_dump_json(indent=2))
    else:
        out.print(table, highlight=False)


@app.command("limits")
def study_limits(
    tasks: Annotated[list[str], typer.Argument(help="Task ids, slugs or folders.")],
    environment: Annotated[str, typer.Option(help="Where it runs.")] = "h200",
    as_json: JsonOption = False,
) -> None:
    """Say what holds each kernel of certified solutions back, from the GPU's counters (needs Nsight Compute).

    With --json one object for each task. Exit code 0: all could be read; 1: some could not.
    """
    from verifier.counters import study_limits as run
    from verifier.faults import InfrastructureFault
    from verifier.judge import list_versions

    specification = find_environment(environment, as_json=as_json)
    failed = False
    for name in tasks:
        task = find_task(name, as_json=as_json)
        try:
            study = run(task, specification, list_versions())
        except InfrastructureFault as error:
            err.print(f"[bold red]{task.id}[/]: {escape(str(error))}", highlight=False)
            failed = True
            continue
        if as_json:
            print(study.model_dump_json())
            continue
        for kernel in study.kernels:
            line = f"{kernel.share:6.1%} {kernel.milliseconds:9.4f} ms  {kernel.name[:40]}: {kernel.held_back_by}"
            out.print(f"[bold]{task.id}[/] {escape(line)}", highlight=False)
    raise typer.Exit(Exit.BELOW_TARGET if failed else Exit.OK)
