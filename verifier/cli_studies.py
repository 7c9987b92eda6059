"""``kq study``: measurements of the verifier itself."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from verifier.exits import Exit
from verifier.terminal import FileArgument, JsonOption, TaskArgument, err, fail, find_environment, find_task, out

app = typer.Typer(no_args_is_help=True, help="Measure the verifier itself, on a GPU host.")


@app.command("repeat")
def study_repeat(
    task: TaskArgument,
    file: FileArgument,
    times: Annotated[int, typer.Option(help="How many verifications.")] = 10,
    environment: Annotated[str, typer.Option(help="Where to verify.")] = "h200",
    as_json: JsonOption = False,
) -> None:
    """Verify the same file several times: how far apart the speedups are, and whether the verdict ever flips."""
    from verifier.studies import repeat, summarise_repeats

    found, specification = find_task(task, as_json=as_json), find_environment(environment, as_json=as_json)
    repeats = []
    for item in repeat(found, file, specification, times):
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
