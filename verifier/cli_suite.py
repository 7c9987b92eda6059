"""The suite as a whole: ``kq portability``, ``kq task new`` and ``kq suite``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from verifier.bundle import BundleError
from verifier.environment import EnvironmentSpecification
from verifier.exits import Exit, find_failure_exit
from verifier.faults import InfrastructureFault
from verifier.portability import KernelPortability, PortabilityReport, TaskPortability, report_portability
from verifier.sandbox import SandboxUnavailable
from verifier.suite import LevelSummary, SuiteReport, SuiteRow, report_suite
from verifier.task import Task, TaskError, load_tasks
from verifier.terminal import JsonOption, err, fail, find_environment, find_task, out
from verifier.verdict import rank_failures

app = typer.Typer(no_args_is_help=True, help="Look at all certified solutions at once.")

NO_FIGURE = "-"
SUITE_WIDTH = 140
SUITE_HEADINGS = (
    "task", "level", "family", "eager", "compiled", "certified", "target", "floor", "of floor", "own", "margin", "",
)  # fmt: skip
HEADINGS = ("kernel", "grid", "warps", "stages", "registers", "spilled", "shared", "tensor cores", "")


def check_portability(
    tasks: Annotated[list[str] | None, typer.Argument(help="Task ids, slugs or folders.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Every task.")] = False,
    file: Annotated[
        Path | None, typer.Option(help="A submission in place of the certified solution of one task.")
    ] = None,
    environment: Annotated[str, typer.Option(help="Whose GPU to compile for; it need not be here.")] = "l40s",
    jobs: Annotated[int, typer.Option(help="Tasks at a time.")] = 2,
    as_json: JsonOption = False,
) -> None:
    """Compile every kernel of certified solutions, at the timed dims, for a GPU that need not be here.

    Spills are reported and fail nothing. Exit code 0: all fit; 11: something does not compile, fit or run;
    14: precision is lost, or tensor cores serve an fp32 task.
    """
    specification = find_environment(environment, as_json=as_json)
    if not specification.timed:
        raise fail(Exit.USAGE, f"environment {environment} has no GPU to compile for", "try: l40s", as_json=as_json)
    found = choose_tasks(tasks or [], every=every, as_json=as_json)
    if file is not None and len(found) != 1:
        raise fail(Exit.USAGE, "--file goes with exactly one task", as_json=as_json)
    results = []
    try:
        for result in examine(found, specification, file, jobs):
            results.append(result)
            if not as_json:
                show_task(result)
    except (SandboxUnavailable, InfrastructureFault) as error:
        raise fail(Exit.TRANSIENT, str(error), "run: kq doctor", as_json=as_json) from None
    except BundleError as error:
        raise fail(Exit.NO_ARTIFACT, error.message, as_json=as_json) from None
    except TaskError as error:
        raise fail(Exit.USAGE, str(error), "run: kq task lint", as_json=as_json) from None
    report = report_portability(specification, results)
    if as_json:
        print(report.model_dump_json(indent=2))
    else:
        show_summary(report, specification)
    failures = rank_failures([code for result in results for code in result.failures])
    raise typer.Exit(find_failure_exit(failures[0]) if failures else Exit.OK)


def choose_tasks(names: list[str], *, every: bool, as_json: bool) -> list[Task]:
    """Return the tasks named on the command line, or all, or end the command."""
    if every == bool(names):
        raise fail(Exit.USAGE, "name some tasks, or say --all", "see: kq task list", as_json=as_json)
    try:
        return load_tasks() if every else [find_task(name, as_json=as_json) for name in names]
    except TaskError as error:
        raise fail(Exit.USAGE, str(error), "run: kq task lint", as_json=as_json) from None


def examine(
    tasks: list[Task], environment: EnvironmentSpecification, file: Path | None, jobs: int
) -> Iterator[TaskPortability]:
    """Yield what a dry run finds of each task's certified solution, or of a file given instead."""
    from verifier.dry.run import examine_all, examine_portability

    if file is None:
        yield from examine_all(tasks, environment, jobs)
    else:
        yield examine_portability(tasks[0], environment, file)


def describe_kernel(kernel: KernelPortability) -> list[str]:
    """Return the row of one kernel."""
    grid = "x".join(map(str, kernel.grids[0])) if kernel.grids else NO_FIGURE
    more = f" +{len(kernel.grids) - 1}" if len(kernel.grids) > 1 else ""
    options = [str(kernel.options.get(name, NO_FIGURE)) for name in ("num_warps", "num_stages")]
    verdict = f"[red]{', '.join(kernel.failures)}[/]" if kernel.failures else "[green]ok[/]"
    if kernel.registers is None:
        return [escape(kernel.name), f"{grid}{more}", *options, *[NO_FIGURE] * 4, verdict]
    figures = [kernel.registers, f"{kernel.spill_stores}/{kernel.spill_loads}", kernel.shared]
    cores = sum(kernel.tensor_core.values())
    return [escape(kernel.name), f"{grid}{more}", *options, *map(str, figures), str(cores), verdict]


def show_task(result: TaskPortability) -> None:
    """Print what was found of one solution."""
    mark = "[green]ok[/]" if result.ok else f"[bold red]{', '.join(result.failures)}[/]"
    memory = "" if result.peak_bytes is None else f", at most {result.peak_bytes / 2**30:.2f} GiB of memory"
    out.print(f"[bold]{result.task}[/] {result.slug} ({result.dtype}{memory}): {mark}", highlight=False)
    if result.error:
        out.print(f"  {escape(result.error)}", highlight=False)
    table = Table(*HEADINGS, box=None)
    table.columns[0].no_wrap = table.columns[1].no_wrap = True
    for kernel in result.kernels:
        table.add_row(*describe_kernel(kernel))
    if result.kernels:
        out.print(table, highlight=False)
    for kernel in result.kernels:
        if kernel.error:
            out.print(f"  {escape(kernel.name)}: {escape(kernel.error)}", highlight=False)


def show_summary(report: PortabilityReport, environment: EnvironmentSpecification) -> None:
    """Print what it was compiled with, and how many solutions fit."""
    fit = sum(task.ok for task in report.tasks)
    software = ", ".join(f"{name} {version}" for name, version in report.versions.items())
    out.print(
        f"{fit} of {len(report.tasks)} fit {report.architecture} ({software}); shared memory of a program: at most "
        f"{environment.device.shared_bytes_per_block} bytes",
        highlight=False,
    )
    if not report.pinned:
        wanted = f"torch {environment.versions.torch} and triton {environment.versions.triton}"
        err.print(f"[yellow]note[/] {environment.slug} is pinned to {wanted}", highlight=False)


def make_task(
    identifier: Annotated[str, typer.Argument(metavar="ID", help="l1 to l4 and a free number, such as l1-42.")],
    slug: Annotated[str, typer.Argument(help="The folder's name, such as scaled-sum.")],
    family: Annotated[str, typer.Option(help="The group of tasks that it belongs to, such as norm-chain.")],
    title: Annotated[str, typer.Option(help="The heading of its page.")],
    level: Annotated[str, typer.Option(help="L1 to L4, as in the id.")] = "",
    root: Annotated[Path | None, typer.Option(help="The folder of tasks, when it is not this installation's.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Write the files of a new task: a small one that works, to be changed step by step into yours."""
    from verifier.new_task import write_task

    values = {"id": identifier, "slug": slug, "title": title, "family": family}
    try:
        folder = write_task({**values, "level": level or identifier[:2].upper()}, root)
    except TaskError as error:
        raise fail(Exit.USAGE, str(error), "see docs/adding-a-task.md", as_json=as_json) from None
    if as_json:
        print(json.dumps({"schema": "kernelquest.task-folder/1", "ok": True, "id": identifier, "folder": str(folder)}))
        return
    out.print(f"[green]ok[/]  {escape(str(folder))}", highlight=False, soft_wrap=True)
    out.print("    next: kq task lint, then docs/adding-a-task.md", highlight=False)


@app.command("report")
def show_suite(
    environment: Annotated[str, typer.Option(help="Where it was certified.")] = "h200",
    as_json: JsonOption = False,
) -> None:
    """Show what certification measured: every task's times, target, floor and share, and the medians of each level.

    Times are medians over the sessions of a certification. Exit code 0 whatever is certified.
    """
    specification = find_environment(environment, as_json=as_json)
    try:
        report = report_suite(load_tasks(), specification)
    except TaskError as error:
        raise fail(Exit.USAGE, str(error), "run: kq task lint", as_json=as_json) from None
    if as_json:
        print(report.model_dump_json(indent=2))
        return
    show_rows(report)
    show_levels(report.levels)


def format_figure(value: float | None, pattern: str) -> str:
    """Return a figure in a format, or the sign for none."""
    return NO_FIGURE if value is None else format(value, pattern)


def describe_row(row: SuiteRow) -> list[str]:
    """Return the cells of one task; what is wrong with it stands last."""
    times = [format_figure(value, ".3f") for value in (row.eager_ms, row.compiled_ms, row.certified_ms)]
    shares = [format_figure(value, ".0%") for value in (row.floor_share, row.own_share, row.margin)]
    notes = [] if row.certified else [f"not certified: {row.reason}" if row.sessions else row.reason]
    notes += [f"changed since: {', '.join(row.changed)}"] if row.changed else []
    target, floor = format_figure(row.target, ".2f"), format_figure(row.floor_ms, ".3f")
    return [row.task, row.level, escape(row.family), *times, target, floor, *shares, escape("; ".join(notes))]


def show_rows(report: SuiteReport) -> None:
    """Print every task; times in milliseconds."""
    table = Table(*SUITE_HEADINGS, box=None, title=f"{report.environment}; times in milliseconds", title_justify="left")
    for row in report.tasks:
        table.add_row(*describe_row(row))
    # A narrow terminal breaks lines by itself; cut figures would be worth nothing.
    Console(width=max(out.width, SUITE_WIDTH)).print(table, highlight=False)


def show_levels(levels: list[LevelSummary]) -> None:
    """Print the medians of the levels beside the announced ones, which were measured on another GPU."""
    table = Table("level", "tasks", "certified", "median target", "announced", box=None)
    for level in levels:
        figures = [format_figure(level.median_target, ".2f"), f"{level.announced_median_target:.2f}"]
        table.add_row(level.level, str(level.tasks), str(level.certified), *figures)
    out.print()
    out.print(table, highlight=False)
