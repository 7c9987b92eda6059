"""``kq``: verify a solution, look at the tasks, and ask whether this host can verify."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import BaseModel
from rich.markup import escape

from verifier import __version__, cli_certify, cli_export, cli_portal, cli_record, cli_studies, cli_suite, cli_workspace
from verifier.admission import AdmissionReport
from verifier.bundle import BundleError, read_file
from verifier.certificate import Certificate
from verifier.environment import EnvironmentSpecification
from verifier.exits import Exit, find_exit
from verifier.portability import PortabilityReport
from verifier.suite import SuiteReport
from verifier.task import Task, TaskError, TaskSpecification, load_tasks
from verifier.terminal import (
    FileArgument,
    JobsOption,
    JsonOption,
    ProgressKind,
    TaskArgument,
    err,
    explain_host,
    fail,
    find_environment,
    find_task,
    out,
    show_progress,
    show_verdict,
)
from verifier.verdict import Verdict

if TYPE_CHECKING:
    from verifier.lint import Complaint
    from verifier.selftest import FixtureResult

app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__, pretty_exceptions_enable=False)
task_app = typer.Typer(no_args_is_help=True, help="Look at the tasks and check them.")
app.add_typer(task_app, name="task")
app.add_typer(cli_studies.app, name="study")
app.add_typer(cli_suite.app, name="suite")
app.add_typer(cli_workspace.app, name="workspace")
app.add_typer(cli_export.app, name="export")
app.command("portability")(cli_suite.check_portability)
app.command("bench")(cli_studies.bench)
app.command("certify")(cli_certify.certify)
app.command("record")(cli_record.record)
for verb in (cli_portal.submit, cli_portal.status, cli_portal.wait, cli_portal.reward):
    app.command()(verb)
app.command()(cli_workspace.check)
app.command()(cli_workspace.history)
app.command()(cli_workspace.profile)
cli_suite.app.command("house")(cli_record.write_house)
task_app.command("new")(cli_suite.make_task)
task_app.command("admit")(cli_certify.admit)

TESTS = Path(__file__).resolve().parent.parent / "tests"


@app.command()
def verify(
    task: TaskArgument,
    file: FileArgument,
    environment: Annotated[str, typer.Option(help="Where to verify.")] = "cpu-interpreter",
    as_json: JsonOption = False,
    progress: Annotated[ProgressKind, typer.Option(help="Progress on stderr.")] = ProgressKind.AUTO,
) -> None:
    """Verify a submission through every gate. Exit code 0: accepted; 10 to 15: which gate rejected it."""
    from verifier.judge import verify as run_verification

    specification = find_environment(environment, as_json=as_json)
    found = find_task(task, as_json=as_json)
    try:
        data = read_file(file)
    except BundleError as error:
        code = Exit.NO_ARTIFACT
        raise fail(code, error.message, f"{error.code}: {error.code.explanation}", as_json=as_json) from None
    try:
        with explain_host(as_json=as_json):
            verdict = run_verification(found, data, specification, lambda event: show_progress(progress, event))
    except TaskError as error:
        raise fail(Exit.USAGE, str(error), as_json=as_json) from None
    if as_json:
        print(verdict.to_json())
    else:
        show_verdict(verdict)
    raise typer.Exit(find_exit(verdict))


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
def lint(
    names: Annotated[list[str] | None, typer.Argument(metavar="[TASK]...", help="Only these tasks.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Check tasks, all unless some are named: specification, files, generators, oracle. Exit code 2 when one is malformed."""
    from verifier.lint import lint_tasks

    chosen = [find_task(name, as_json=as_json) for name in names or []]
    tasks, complaints = lint_some(chosen) if chosen else lint_tasks()
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


def lint_some(chosen: list[Task]) -> tuple[list[Task], list[Complaint]]:
    """Return those of some tasks that are sound, and the complaints about the others."""
    from verifier.lint import complain, lint_task

    tasks: list[Task] = []
    complaints: list[Complaint] = []
    for task in chosen:
        try:
            found = lint_task(task)
        except TaskError as error:
            found = [complain(error.path, error.key, error.reason)]
        complaints += found
        tasks += [] if found else [task]
    return tasks, complaints


SCHEMAS: dict[str, type[BaseModel]] = {
    "verdict": Verdict,
    "task": TaskSpecification,
    "environment": EnvironmentSpecification,
    "certificate": Certificate,
    "admission": AdmissionReport,
    "portability": PortabilityReport,
    "suite": SuiteReport,
}


@app.command()
def selftest(
    environment: Annotated[str, typer.Option(help="Where to verify.")] = "cpu-interpreter",
    folder: Annotated[
        Path, typer.Option(help="The folder with exploits/, honest/ and fixture_tasks/.", show_default="tests")
    ] = TESTS,
    only: Annotated[str, typer.Option(help="Only fixtures whose name holds this text.")] = "",
    part: Annotated[str, typer.Option(help="Only a share of them: 2/3 is the second of three.")] = "1/1",
    jobs: JobsOption = 2,
    log: Annotated[
        Path | None, typer.Option(help="A file for each result as it comes; what is in it is not run again.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Verify every exploit and every honest fixture. Exit code 0: each got the verdict that it must get."""
    from verifier.selftest import choose_part, list_fixtures, read_log, run_selftest, summarise

    specification = find_environment(environment, as_json=as_json)
    try:
        found = [item for item in list_fixtures(folder, environment) if only in item.path.stem]
    except ValueError as error:
        raise fail(Exit.USAGE, str(error), "see CONTRIBUTING.md for a fixture's head", as_json=as_json) from None
    try:
        fixtures = choose_part(found, part)
    except ValueError as error:
        raise fail(Exit.USAGE, str(error), "try: --part 1/2", as_json=as_json) from None
    if not fixtures:
        raise fail(Exit.USAGE, f"no fixture of {environment} in {folder} has {only!r} in its name", as_json=as_json)
    results = read_log(log, fixtures) if log else []
    done = {(result.kind, result.name) for result in results}
    left = [item for item in fixtures if (item.kind, item.path.stem) not in done]
    with explain_host(as_json=as_json):
        for result in run_selftest(left, folder, specification, jobs):
            results.append(result)
            if log:
                with log.open("a", encoding="utf-8") as file:
                    file.write(result.model_dump_json() + "\n")
            err.print(f"{len(results):4}/{len(fixtures)} {describe_result(result)}", highlight=False)
    report = summarise(specification, results)
    if as_json:
        print(report.model_dump_json(by_alias=True, indent=2))
    wrong = [result for result in report.results if not result.as_expected]
    out_of = f"{len(results) - len(wrong)} of {len(results)} verdicts are right"
    (err if as_json else out).print(f"[bold {'red' if wrong else 'green'}]{out_of}[/]", highlight=False)
    raise typer.Exit(Exit.INTERNAL if wrong else Exit.OK)


def describe_result(result: FixtureResult) -> str:
    """Return what became of a fixture as a line."""
    mark = "[green]ok    [/]" if result.as_expected else "[bold red]WRONG [/]"
    found = ", ".join(result.failures) or result.outcome
    expected = "" if result.as_expected else f", expected {result.expected or 'acceptance'}"
    return f"{mark} {result.kind} {result.name}: {found} ({result.seconds:.0f} s){expected}"


@app.command()
def schema(name: Annotated[str, typer.Argument(help="verdict, task, environment, portability or suite")]) -> None:
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
