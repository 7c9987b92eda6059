"""What the commands share: options, errors with a way out, and how verdicts and progress are printed."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from verifier.environment import EnvironmentSpecification, load_environment
from verifier.exits import Exit
from verifier.faults import InfrastructureFault
from verifier.sandbox import SandboxUnavailable
from verifier.task import Task, TaskError, load_task, load_tasks
from verifier.verdict import Check, Gate, GateStatus, Outcome, TimingRecord, Verdict

out = Console()
err = Console(stderr=True)

TaskArgument = Annotated[str, typer.Argument(help="Task id, slug or folder, such as l1-09 or sparsemax-rows.")]
FileArgument = Annotated[Path, typer.Argument(help="The submission: one Python file.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.", envvar="KQ_JSON")]

JobsOption = Annotated[int, typer.Option(min=1, help="Verifications at a time; timed calls run alone all the same.")]


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


@contextmanager
def explain_host(*, as_json: bool = False) -> Iterator[None]:
    """End the command with a way out when this host cannot verify."""
    try:
        yield
    except (SandboxUnavailable, InfrastructureFault) as error:
        raise fail(Exit.TRANSIENT, str(error), "run: kq doctor", as_json=as_json) from None


def find_task(name: str, *, as_json: bool = False) -> Task:
    """Return the task named on the command line, or end the command."""
    try:
        return load_task(name)
    except KeyError:
        known = ", ".join(f"{task.id} ({task.specification.slug})" for task in load_tasks())
        raise fail(Exit.USAGE, f"there is no task {name!r}", f"known tasks: {known}", as_json=as_json) from None
    except TaskError as error:
        raise fail(Exit.USAGE, str(error), "mend the task, then try again", as_json=as_json) from None


def find_environment(slug: str, *, as_json: bool) -> EnvironmentSpecification:
    """Return the environment named on the command line, or end the command."""
    try:
        return load_environment(slug)
    except KeyError:
        raise fail(
            Exit.USAGE, f"there is no environment {slug!r}", "see tasks/environments/", as_json=as_json
        ) from None


def show_progress(kind: ProgressKind, event: dict[str, Any]) -> None:
    """Print one progress event on stderr."""
    if kind is ProgressKind.JSONL:
        print(json.dumps(event), file=sys.stderr, flush=True)
    elif kind is not ProgressKind.NONE and (text := describe_event(event)):
        task = f"{event['task']:<8}" if "task" in event else ""
        err.print(f"[dim]{event['t']:7.1f} s[/]  {task}{text}", highlight=False)


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
