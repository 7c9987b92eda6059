"""``kq record``: verify the house's own runs and keep their verdicts."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from verifier.cli_certify import TESTS
from verifier.exits import Exit
from verifier.limits import ROUNDS
from verifier.recording import (
    INDEX,
    RecordedIndex,
    RecordedSubmission,
    list_house_submissions,
    load_index,
    load_verdict,
    read_submission,
    write_verdict,
)
from verifier.task import TaskError, find_tasks_root, load_tasks
from verifier.terminal import (
    JobsOption,
    JsonOption,
    ProgressKind,
    err,
    explain_host,
    fail,
    find_environment,
    find_task,
    out,
    show_progress,
)
from verifier.verdict import Outcome, Verdict

RECORDED = "recorded"
HOUSE = "house"
FolderArgument = Annotated[str, typer.Argument(help="A folder of recorded runs, or its name in tasks/recorded/.")]


def record(
    folder: FolderArgument,
    environment: Annotated[str, typer.Option(help="Where to verify.")] = "h200",
    only: Annotated[str, typer.Option(help="Only runs whose name holds this text.")] = "",
    jobs: JobsOption = 1,
    rounds: Annotated[
        int,
        typer.Option(
            min=1,
            max=ROUNDS,
            help="Rounds of 25 timed calls for runs that must be rejected: their speed does not count.",
        ),
    ] = ROUNDS,
    resume: Annotated[
        bool, typer.Option("--resume", help="Leave out runs that have a verdict for the same file.")
    ] = False,
    progress: Annotated[ProgressKind, typer.Option(help="Progress on stderr.")] = ProgressKind.AUTO,
    as_json: JsonOption = False,
) -> None:
    """Verify recorded submissions and write their verdicts beside them.

    Exit code 0: each got what its index expects; 1: some did not, and their verdicts are written all the same.
    """
    from verifier.judge import Submission, verify_each

    specification, place = find_environment(environment, as_json=as_json), find_folder(folder)
    lost: dict[str, str] = {}
    surprises = 0
    try:
        index = load_index(place)
        chosen = [item for item in index.submissions if only in item.name]
        left = []
        for item in chosen:
            verdict = load_verdict(place, environment, item) if resume else None
            if verdict is None or not is_of(verdict, read_submission(place, item)):
                left.append(item)
            else:
                surprises += show_run(item, verdict)
        submissions = [
            Submission(
                find_task(item.task or index.task, as_json=as_json),
                read_submission(place, item),
                rounds if item.expected else ROUNDS,
            )
            for item in left
        ]
        with explain_host(as_json=as_json):
            for number, verdict in verify_each(submissions, specification, partial(show_progress, progress), jobs):
                if verdict.outcome is Outcome.INFRASTRUCTURE:
                    lost[left[number].name] = verdict.evidence.error
                    continue
                write_verdict(place, left[number], verdict)
                surprises += show_run(left[number], verdict)
    except TaskError as error:
        raise fail(Exit.USAGE, str(error), as_json=as_json) from None
    if lost:
        text = "; ".join(f"{name}: {error}" for name, error in lost.items())
        raise fail(Exit.TRANSIENT, text, "run: kq doctor, then this again with --resume", as_json=as_json)
    raise typer.Exit(Exit.BELOW_TARGET if surprises else Exit.OK)


def find_folder(name: str) -> Path:
    """Return the folder that was named."""
    path = Path(name)
    return path if (path / INDEX).is_file() else find_tasks_root() / RECORDED / name


def is_of(verdict: Verdict, data: bytes) -> bool:
    """Return whether a verdict is of these bytes."""
    from hashlib import sha256

    return verdict.solution_sha256 == sha256(data).hexdigest()


def show_run(item: RecordedSubmission, verdict: Verdict) -> bool:
    """Print one run as a line, and return whether it is not what was expected: a slow run is as honest as a fast one."""
    rejected = verdict.failures and verdict.outcome is Outcome.REJECTED
    found = verdict.failures[0] if rejected else ""
    surprising = found != item.expected
    mark = "[bold red]other[/]" if surprising else "[green]ok[/]   "
    speed = "" if verdict.measured_speedup is None else f" {verdict.measured_speedup:.3f} times as fast"
    expected = f", expected {item.expected or 'acceptance'}" if surprising else ""
    line = f"{item.name}: {', '.join(verdict.failures) or verdict.outcome}{speed}{expected}"
    out.print(f"{mark} {escape(line)}", highlight=False)
    return surprising


def write_house(
    folder: Annotated[Path | None, typer.Argument(help="Where to write; tasks/recorded/house.")] = None,
) -> None:
    """Write the house's own runs of every task: certified, plain Triton, and the reference eager and compiled."""
    place = folder or find_tasks_root() / RECORDED / HOUSE
    try:
        tasks = load_tasks()
    except TaskError as error:
        raise fail(Exit.USAGE, str(error), "run: kq task lint") from None
    place.mkdir(parents=True, exist_ok=True)
    submissions = []
    for item, text in list_house_submissions(tasks, TESTS / "honest"):
        (place / item.file).write_text(text, encoding="utf-8")
        submissions.append(item)
    index = RecordedIndex(schema_id="kernelquest.recorded/1", submissions=submissions)
    (place / INDEX).write_text(describe_index(index), encoding="utf-8")
    err.print(f"{len(submissions)} submissions in {escape(str(place))}", highlight=False)


def describe_index(index: RecordedIndex) -> str:
    """Return an index as TOML."""
    lines = [
        "# The house's own runs of every task. Written by kq suite house; their verdicts by kq record house.",
        f'schema = "{index.schema_id}"',
    ]
    for item in index.submissions:
        fields = item.model_dump(mode="json", exclude_defaults=True)
        lines += ["", "[[submission]]", *(f'{key} = "{value}"' for key, value in fields.items())]
    return "\n".join(lines) + "\n"
