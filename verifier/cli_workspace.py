"""``kq workspace``, ``check`` and ``history``, and what ``submit`` and ``reward`` do in a workspace."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import BaseModel
from rich.markup import escape
from rich.table import Table

from verifier.bundle import BundleError, read_file
from verifier.certificate import load_certificate
from verifier.exits import Exit, find_exit, find_failure_exit
from verifier.terminal import (
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
from verifier.workspaces.workspace import (
    DEFAULT_HOURS,
    SOLUTION,
    Workspace,
    WorkspaceError,
    create,
    digest,
    open_workspace,
)

if TYPE_CHECKING:
    from verifier.workspaces.profiles import Profile

app = typer.Typer(no_args_is_help=True, help="An agent's workspace for one task: make one, and see what is left.")

VISIBLE_ONLY = "on visible inputs: hidden ones and secret seeds decide later"
SolutionArgument = Annotated[Path, typer.Argument(help="The Python file with the solution.")]
WorkspaceOption = Annotated[Path, typer.Option("--workspace", help="The workspace, or a folder in it.")]
RoundsOption = Annotated[int, typer.Option(min=0, max=4, help="Rounds of 25 timed calls a side; none is quicker.")]
HERE = Path()


@app.command("create")
def create_workspace(
    task: TaskArgument,
    folder: Annotated[Path, typer.Argument(help="A new or empty folder.")],
    environment: Annotated[str, typer.Option(help="Where the work will be judged.")] = "cpu-interpreter",
    hours: Annotated[float, typer.Option(min=0.01, help="The budget of time.")] = DEFAULT_HOURS,
    as_json: JsonOption = False,
) -> None:
    """Make a workspace: instruction, reference, visible inputs, and nothing hidden. Its time begins now."""
    specification, found = find_environment(environment, as_json=as_json), find_task(task, as_json=as_json)
    certificate = load_certificate(found, environment)
    try:
        made = create(found, folder, specification.slug, certificate.target if certificate else None, hours)
    except WorkspaceError as error:
        raise fail(Exit.USAGE, str(error), error.fix, as_json=as_json) from None
    show_status(made, as_json=as_json)


@app.command("status")
def show_workspace(workspace: WorkspaceOption = HERE, as_json: JsonOption = False) -> None:
    """Say what the task is, what is to be reached, and how much time is left."""
    show_status(find_workspace(workspace, as_json=as_json), as_json=as_json)


def show_status(workspace: Workspace, *, as_json: bool) -> None:
    """Print a workspace's state."""
    left = workspace.measure_left()
    attempts = workspace.list_attempts()
    if as_json:
        state = {"ok": True, "folder": str(workspace.folder), "seconds_left": round(left.total_seconds(), 1)}
        state |= {"attempts": len(attempts), "artifact": workspace.artifact.is_file()}
        print(json.dumps({**workspace.settings.model_dump(mode="json"), **state}))
        return
    settings = workspace.settings
    target = f"{settings.target:g} times the baseline" if settings.target else "none is certified there"
    lines = {
        "task": f"{settings.task} {workspace.task.specification.title}",
        "workspace": str(workspace.folder),
        "environment": settings.environment,
        "target": target,
        "time left": f"{int(left.total_seconds()) // 60} min {int(left.total_seconds()) % 60} s",
        "attempts": str(len(attempts)),
        "artifact": str(workspace.artifact) if workspace.artifact.is_file() else "none yet: kq submit solution.py",
    }
    for name, text in lines.items():
        out.print(f"[bold]{name:<12}[/] {escape(text)}", highlight=False, soft_wrap=True)


def find_workspace(folder: Path, *, as_json: bool) -> Workspace:
    """Return the workspace that a folder lies in, or end the command."""
    try:
        found = open_workspace(folder)
    except WorkspaceError as error:
        raise fail(Exit.USAGE, str(error), error.fix, as_json=as_json) from None
    if found is None:
        raise fail(
            Exit.USAGE, "this is no workspace", "make one: kq workspace create TASK FOLDER", as_json=as_json
        ) from None
    return found


def read_solution(file: Path, *, as_json: bool) -> bytes:
    """Return the bytes of a solution, or end the command."""
    try:
        return read_file(file)
    except BundleError as error:
        fix = f"{error.code}: {error.code.explanation}"
        raise fail(Exit.NO_ARTIFACT, error.message, fix, as_json=as_json) from None


def check(
    file: SolutionArgument = Path(SOLUTION),
    workspace: WorkspaceOption = HERE,
    environment: Annotated[str, typer.Option(help="Where to check; the workspace's unless given.")] = "",
    rounds: RoundsOption = 0,
    as_json: JsonOption = False,
    progress: Annotated[ProgressKind, typer.Option(help="Progress on stderr.")] = ProgressKind.AUTO,
) -> None:
    """Run the verifier's gates on visible inputs. Exit code 0: all passed; 1 or 10 to 15: as kq verify.

    It is the same verifier; only the inputs are others. With --rounds it times the file too, where there is a GPU.
    """
    place = find_workspace(workspace, as_json=as_json)
    data = read_solution(file, as_json=as_json)
    verdict = run_check(place, data, environment, rounds, progress, as_json=as_json)
    record = place.keep_check(data, verdict)
    if as_json:
        print(json.dumps({"schema": "kernelquest.check/1", "inputs": "visible", **record.model_dump(mode="json")}))
    else:
        show_verdict(verdict)
        out.print(f"[dim]{VISIBLE_ONLY}[/]", highlight=False)
    raise typer.Exit(find_exit(verdict))


def run_check(
    place: Workspace, data: bytes, environment: str, rounds: int, progress: ProgressKind, *, as_json: bool
) -> Verdict:
    """Return what the gates say of some bytes on visible inputs, or end the command."""
    from verifier.judge import Plan, verify
    from verifier.limits import choose_limits

    specification = find_environment(environment or place.settings.environment, as_json=as_json)
    plan = Plan(choose_limits(specification), rounds=rounds)
    with explain_host(as_json=as_json):
        return verify(place.task, data, specification, partial(show_progress, progress), plan)


def submit_here(place: Workspace, file: Path, note: str, *, skip_check: bool, as_json: bool) -> None:
    """Check a file, keep a snapshot of it, and make it the artifact that counts; or end the command."""
    data = read_solution(file, as_json=as_json)
    if not skip_check:
        record = place.find_check(digest(data))
        if record is None:
            verdict = run_check(place, data, "", 0, ProgressKind.AUTO, as_json=as_json)
            record = place.keep_check(data, verdict)
        code = find_failure_exit(record.failures[0]) if record.failures else Exit.OK
        if code not in (Exit.OK, Exit.BELOW_TARGET):
            text = f"a gate rejects it on visible inputs: {', '.join(record.failures)}"
            raise fail(code, text, "run: kq check; or submit it all the same with --skip-check", as_json=as_json)
    try:
        attempt = place.submit(data, note)
    except WorkspaceError as error:
        raise fail(Exit.USAGE, str(error), error.fix, as_json=as_json) from None
    show_record(attempt, f"attempt {attempt.number} is the artifact now: {place.artifact}", as_json=as_json)


def show_record(record: BaseModel, text: str, *, as_json: bool) -> None:
    """Print a record for programs, or a line for people."""
    if as_json:
        print(json.dumps({"ok": True, **record.model_dump(mode="json")}))
    else:
        out.print(escape(text), highlight=False, soft_wrap=True)


def describe_attempts(place: Workspace) -> list[dict[str, Any]]:
    """Return the attempts, each with what the gates said of its file."""
    rows = []
    for attempt in place.list_attempts():
        record = place.find_check(attempt.sha256)
        found = record.model_dump(mode="json", include={"outcome", "failures", "speedup", "reward"}) if record else {}
        rows.append({**attempt.model_dump(mode="json"), "check": found or None})
    return rows


def history(workspace: WorkspaceOption = HERE, as_json: JsonOption = False) -> None:
    """List the attempts of a workspace, with what the gates said of each on visible inputs."""
    rows = describe_attempts(find_workspace(workspace, as_json=as_json))
    if as_json:
        print(json.dumps({"schema": "kernelquest.history/1", "ok": True, "attempts": rows}))
        return
    table = Table("attempt", "at (UTC)", "gates", "speedup", "reward (estimate)", "sha256", "note", box=None)
    for row in rows:
        found = row["check"] or {}
        gates = "not checked" if not found else ", ".join(found["failures"]) or found["outcome"]
        figures = ["-" if found.get(name) is None else f"{found[name]:.3f}" for name in ("speedup", "reward")]
        table.add_row(str(row["number"]), row["at"][11:19], gates, *figures, row["sha256"][:12], escape(row["note"]))
    out.print(table if rows else "no attempts yet: kq submit solution.py", highlight=False)


def estimate_reward(place: Workspace, *, as_json: bool) -> None:
    """Print an estimate of the artifact's reward, from visible inputs; or end the command."""
    attempts = place.list_attempts()
    if not attempts:
        raise fail(Exit.NO_ARTIFACT, "nothing was submitted", "run: kq submit solution.py", as_json=as_json)
    record = place.find_check(attempts[-1].sha256)
    reward = record.reward if record else None
    if as_json:
        figures = {"reward": reward, "estimate": True, "attempt": attempts[-1].number, "inputs": "visible"}
        print(json.dumps({"schema": "kernelquest.reward/1", "ok": True, **figures}))
    elif reward is None:
        err.print("not decided yet: it was not timed; on a GPU: kq check --rounds 1", highlight=False)
    else:
        print(f"{reward:.4f}")
        err.print(f"an estimate, {VISIBLE_ONLY}", highlight=False)


def profile(
    file: Annotated[Path | None, typer.Argument(help="A solution; the reference when none is given.")] = None,
    task: Annotated[str, typer.Option(help="The task; a workspace's own unless given.")] = "",
    environment: Annotated[str, typer.Option(help="Where to run; a workspace's own unless given.")] = "",
    top: Annotated[int, typer.Option(min=1, max=150, help="How many rows to print.")] = 20,
    trace: Annotated[Path | None, typer.Option(help="Of the reference: a file for a trace viewer.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Show where the time of one call goes, and how far that is from the task's floor."""
    from verifier.workspaces.profiles import profile_file, profile_reference

    place = None if task else find_workspace(HERE, as_json=as_json)
    found = find_task(task, as_json=as_json) if place is None else place.task
    slug = environment or (place.settings.environment if place else "cpu-interpreter")
    specification = find_environment(slug, as_json=as_json)
    with explain_host(as_json=as_json):
        if file is None:
            result = profile_reference(found, specification, trace)
        else:
            result = profile_file(found, read_solution(file, as_json=as_json), str(file), specification)
    if as_json:
        print(result.model_dump_json())
    else:
        show_profile(result, top)
    raise typer.Exit(Exit.UNLOADABLE if result.error else Exit.OK)


def show_profile(result: Profile, top: int) -> None:
    """Print a profile for people, in few lines."""
    out.print(f"[bold]{escape(result.subject)}[/] of {result.task}: share of {result.measure}", highlight=False)
    if result.error:
        out.print(f"[bold red]it did not run[/] {escape(result.error)}", highlight=False)
    figure = "ms" if result.milliseconds is not None else "operations"
    table = Table("share", figure, "calls", "own", "name", box=None)
    for row in result.rows[:top]:
        amount = f"{row.milliseconds:.4f}" if row.milliseconds is not None else f"{row.operations:,}"
        table.add_row(f"{row.share:.1%}", amount, str(row.calls), "own" if row.own else "", escape(row.name[:70]))
    out.print(table, highlight=False)
    if len(result.rows) > top:
        out.print(f"and {len(result.rows) - top} more: --top {len(result.rows)}", highlight=False)
    if result.milliseconds and result.floor_ms:
        times = f"{result.milliseconds:.4f} ms of work; the floor is {result.floor_ms:.4f} ms, bound by {result.bound}"
        out.print(f"{times}: {result.floor_ms / result.milliseconds:.0%} of what is possible", highlight=False)
