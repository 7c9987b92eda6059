"""``kq``: verify a solution, look at the tasks, and ask whether this host can verify."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import BaseModel
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from verifier import __version__
from verifier.bundle import BundleError, read_file
from verifier.environment import EnvironmentSpecification, load_environment
from verifier.exits import Exit, find_exit
from verifier.task import Task, TaskError, TaskSpecification, load_task, load_tasks
from verifier.verdict import Check, Gate, GateStatus, Outcome, TimingRecord, Verdict

app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__, pretty_exceptions_enable=False)
task_app = typer.Typer(no_args_is_help=True, help="Look at the tasks and check them.")
app.add_typer(task_app, name="task")

TESTS = Path(__file__).resolve().parent.parent / "tests"

out = Console()
err = Console(stderr=True)

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.", envvar="KQ_JSON")]


class ProgressKind(StrEnum):
    AUTO = "auto"
    PLAIN = "plain"
    JSONL = "jsonl"
    NONE = "none"


def fail(code: Exit, message: str, fix: str = "", *, as_json: bool = False) -> typer.Exit:
    """Report an error with its way out and return the exception that ends the command."""
    if as_json:
        print(
            json.dumps(
                {
                    "schema": "kernelquest.error/1",
                    "ok": False,
                    "exit": code,
                    "error": {"message": message[:2048], "fix": fix},
                }
            )
        )
    else:
        err.print(f"[bold red]error[/] {escape(message)}")
        if fix:
            err.print(f"      {escape(fix)}")
    return typer.Exit(code)


def find_task(name: str, *, as_json: bool = False) -> Task:
    """Return the task named on the command line, or end the command."""
    try:
        return load_task(name)
    except KeyError:
        known = ", ".join(f"{task.id} ({task.specification.slug})" for task in load_tasks())
        raise fail(Exit.USAGE, f"there is no task {name!r}", f"known tasks: {known}", as_json=as_json) from None
    except TaskError as error:
        raise fail(Exit.USAGE, str(error), "mend the task, then try again", as_json=as_json) from None


def show_progress(kind: ProgressKind, event: dict[str, Any]) -> None:
    """Print one progress event on stderr."""
    if kind is ProgressKind.JSONL:
        print(json.dumps(event), file=sys.stderr, flush=True)
    elif kind is not ProgressKind.NONE and (text := describe_event(event)):
        err.print(f"[dim]{event['t']:7.1f} s[/]  {text}", highlight=False)


def describe_event(event: dict[str, Any]) -> str:
    """Return a progress event in words, or an empty text for one that people need not see."""
    match event["event"]:
        case "gate":
            return f"{event['gate']:<12} {event['state']}"
        case "timing":
            return f"{'':<12} round {event['round']} of {event['of']} timed"
        case "waiting":
            return f"waiting for {event['for']}"
    return ""


STATUS_STYLES = {
    GateStatus.PASSED: "green",
    GateStatus.FAILED: "bold red",
    GateStatus.SKIPPED: "dim",
    GateStatus.NOT_TIMED: "cyan",
}
MARKS = {True: "[green]ok    [/]", False: "[red]FAILED[/]", None: "[dim]noted [/]"}


def describe_check(item: Check) -> str:
    """Return one check as a line: what was observed against what is allowed."""
    observed = "" if item.observed is None else f"{item.observed}"
    allowed = (
        "" if item.allowed is None else f" (allowed: {' '.join(f'{item.bound} {item.allowed} {item.unit}'.split())})"
    )
    text = ": ".join(part for part in (item.label, f"{observed}{allowed}".strip(), item.detail) if part)
    return f"  {MARKS[item.passed]}  {escape(text)}" + (f"  [red]{item.code}[/]" if item.code else "")


def show_timing(timing: TimingRecord) -> None:
    """Print what each side took."""
    table = Table("side", "mean ms", "median", "10 %", "90 %", "variation", box=None)
    for side, record in timing.sides.items():
        figures = [f"{value:.4f}" for value in (record.mean, record.median, record.tenth, record.ninetieth)]
        table.add_row(side, *figures, f"{record.variation:.1%}")
    out.print(table, highlight=False)


def show_verdict(verdict: Verdict) -> None:
    """Print a verdict for people."""
    out.print(f"[bold]{verdict.task}[/] in {verdict.environment}", highlight=False)
    for result in verdict.gates:
        status = f"[{STATUS_STYLES[result.status]}]{result.note or result.status}[/]"
        out.print(f"[bold]{result.gate:<12}[/] {status}", highlight=False)
        for item in result.checks:
            out.print(describe_check(item), highlight=False, soft_wrap=True)
    if verdict.evidence.timing:
        show_timing(verdict.evidence.timing)
    if verdict.evidence.error:
        out.print(f"[bold]what it said[/]  {escape(verdict.evidence.error)}", highlight=False)
    if verdict.evidence.traceback:
        out.print(escape(verdict.evidence.traceback[-2000:]), style="dim", highlight=False)
    colour = "green" if verdict.accepted else "red"
    untimed = verdict.gate(Gate.PERFORMANCE).status is GateStatus.NOT_TIMED
    why = "not timed in this environment" if untimed else "no target has been certified in this environment"
    headline = {
        Outcome.ACCEPTED: f"accepted: every gate that this environment can judge passed; {why}",
        Outcome.PASSED: "passed",
        Outcome.BELOW_TARGET: "accepted, below the target",
        Outcome.INFRASTRUCTURE: "no verdict: a fault on our side; try again",
        Outcome.REJECTED: "rejected",
    }[verdict.outcome]
    out.print(f"[bold {colour}]{headline}[/] ({verdict.seconds:.1f} s)", highlight=False)
    for code in verdict.failures:
        out.print(f"  [red]{code}[/]  {code.mode.label}: {escape(code.explanation)}", highlight=False)


@app.command()
def verify(
    task: Annotated[str, typer.Argument(help="Task id or slug, such as l1-09 or sparsemax-rows.")],
    file: Annotated[Path, typer.Argument(help="The submission: one Python file.")],
    environment: Annotated[str, typer.Option(help="Where to verify.")] = "cpu-interpreter",
    as_json: JsonOption = False,
    progress: Annotated[ProgressKind, typer.Option(help="Progress on stderr.")] = ProgressKind.AUTO,
) -> None:
    """Verify a submission through every gate. Exit code 0: accepted; 10 to 15: which gate rejected it."""
    from verifier.judge import verify as run_verification
    from verifier.sandbox import SandboxUnavailable

    specification = find_environment(environment, as_json=as_json)
    found = find_task(task, as_json=as_json)
    try:
        data = read_file(file)
    except BundleError as error:
        code = Exit.NO_ARTIFACT
        raise fail(code, error.message, f"{error.code}: {error.code.explanation}", as_json=as_json) from None
    try:
        verdict = run_verification(found, data, specification, lambda event: show_progress(progress, event))
    except SandboxUnavailable as error:
        raise fail(Exit.TRANSIENT, str(error), "run: kq doctor", as_json=as_json) from None
    except TaskError as error:
        raise fail(Exit.USAGE, str(error), as_json=as_json) from None
    if as_json:
        print(verdict.to_json())
    else:
        show_verdict(verdict)
    raise typer.Exit(find_exit(verdict))


def find_environment(slug: str, *, as_json: bool) -> EnvironmentSpecification:
    """Return the environment named on the command line, or end the command."""
    try:
        return load_environment(slug)
    except KeyError:
        raise fail(
            Exit.USAGE, f"there is no environment {slug!r}", "see tasks/environments/", as_json=as_json
        ) from None


@app.command()
def doctor(
    environment: Annotated[str, typer.Option(help="Where this host is to verify.")] = "cpu-interpreter",
    as_json: JsonOption = False,
) -> None:
    """Say whether this host can verify in an environment, and what to enable where it cannot."""
    from verifier.doctor import examine

    findings = examine(find_environment(environment, as_json=as_json))
    healthy = all(finding.ok for finding in findings)
    if as_json:
        report = {
            "schema": "kernelquest.doctor/1",
            "environment": environment,
            "ok": healthy,
            "findings": [finding.to_dict() for finding in findings],
        }
        print(json.dumps(report))
    else:
        for finding in findings:
            mark = "[green]ok[/]  " if finding.ok else "[red]no[/]  "
            out.print(f"{mark}{finding.name:<14} {escape(finding.found)}", highlight=False)
            if finding.fix:
                out.print(f"    [bold]fix[/] {escape(finding.fix)}", highlight=False)
    raise typer.Exit(Exit.OK if healthy else Exit.TRANSIENT)


@task_app.command("list")
def list_all(as_json: JsonOption = False) -> None:
    """List the tasks."""
    try:
        tasks = load_tasks()
    except TaskError as error:
        raise fail(Exit.USAGE, str(error), "run: kq task lint", as_json=as_json) from None
    if as_json:
        listed = [{"id": task.id, "slug": task.specification.slug, "title": task.specification.title} for task in tasks]
        print(json.dumps({"schema": "kernelquest.tasks/1", "ok": True, "tasks": listed}))
        return
    for task in tasks:
        out.print(f"{task.id}  {task.specification.slug:<28} {escape(task.specification.title)}", highlight=False)


@task_app.command("show")
def show_task(task: Annotated[str, typer.Argument(help="Task id or slug.")]) -> None:
    """Print a task's instruction."""
    print(find_task(task).instruction)


@task_app.command("lint")
def lint(as_json: JsonOption = False) -> None:
    """Check every task: specification, files, generators, oracle. Exit code 2 when one is malformed."""
    from verifier.lint import lint_tasks

    tasks, complaints = lint_tasks()
    if as_json:
        report = {
            "schema": "kernelquest.lint/1",
            "ok": not complaints,
            "tasks": [task.id for task in tasks],
            "complaints": [{"file": item.file, "key": item.key, "reason": item.reason} for item in complaints],
        }
        print(json.dumps(report))
    else:
        for task in tasks:
            out.print(f"[green]ok[/]  {task.id}  {task.specification.slug}", highlight=False)
        for item in complaints:
            out.print(f"[red]no[/]  {escape(item.file)}: {escape(item.key)}: {escape(item.reason)}", highlight=False)
    raise typer.Exit(Exit.OK if not complaints else Exit.USAGE)


SCHEMAS: dict[str, type[BaseModel]] = {
    "verdict": Verdict,
    "task": TaskSpecification,
    "environment": EnvironmentSpecification,
}


@app.command()
def selftest(
    environment: Annotated[str, typer.Option(help="Where to verify.")] = "cpu-interpreter",
    folder: Annotated[Path, typer.Option(help="The folder with exploits/, honest/ and fixture_tasks/.")] = TESTS,
    only: Annotated[str, typer.Option(help="Only fixtures whose name holds this text.")] = "",
    jobs: Annotated[int, typer.Option(help="Verifications at a time; timed calls run alone all the same.")] = 2,
    as_json: JsonOption = False,
) -> None:
    """Verify every exploit and every honest fixture. Exit code 0: each got the verdict that it must get."""
    from verifier.selftest import list_fixtures, run_selftest, summarise

    specification = find_environment(environment, as_json=as_json)
    fixtures = [item for item in list_fixtures(folder, environment) if only in item.path.stem]
    if not fixtures:
        raise fail(Exit.USAGE, f"no fixture of {environment} in {folder} has {only!r} in its name", as_json=as_json)
    results = []
    for result in run_selftest(fixtures, folder, specification, jobs):
        results.append(result)
        mark = "[green]ok    [/]" if result.as_expected else "[bold red]WRONG [/]"
        found = ", ".join(result.failures) or result.outcome
        line = f"{len(results):4}/{len(fixtures)} {mark} {result.kind} {result.name}: {found} ({result.seconds:.0f} s)"
        err.print(
            line + ("" if result.as_expected else f", expected {result.expected or 'acceptance'}"), highlight=False
        )
    report = summarise(specification, results)
    if as_json:
        print(report.model_dump_json(by_alias=True, indent=2))
    wrong = [result for result in report.results if not result.as_expected]
    out_of = f"{len(results) - len(wrong)} of {len(results)} verdicts are right"
    (err if as_json else out).print(f"[bold {'red' if wrong else 'green'}]{out_of}[/]", highlight=False)
    raise typer.Exit(Exit.INTERNAL if wrong else Exit.OK)


@app.command()
def schema(name: Annotated[str, typer.Argument(help="verdict, task or environment")]) -> None:
    """Print the JSON Schema of a file or result."""
    if name not in SCHEMAS:
        raise fail(Exit.USAGE, f"there is no schema {name!r}", f"known: {', '.join(SCHEMAS)}")
    print(json.dumps(SCHEMAS[name].model_json_schema(by_alias=True), indent=2))


@app.command()
def version() -> None:
    """Print the verifier's version."""
    print(__version__)


def main() -> None:
    """Run the command line; interruptions and internal errors have their own exit codes."""
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(Exit.INTERRUPTED)
    except Exception as error:  # noqa: BLE001 - the last resort, so that every failure has a documented exit code
        err.print_exception()
        err.print(f"[bold red]internal error[/] {escape(str(error))}")
        sys.exit(Exit.INTERNAL)
