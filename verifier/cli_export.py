"""``kq export``: tasks in the form that other systems run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from verifier.exits import Exit
from verifier.task import TaskError, load_tasks
from verifier.terminal import JsonOption, fail, find_environment, find_task, out

app = typer.Typer(no_args_is_help=True, help="Write tasks in the form that other systems run.")


# With one command alone there would be no verb.
@app.callback()
def choose_format() -> None:
    """Write tasks in the form that other systems run."""


@app.command("harbor")
def export_harbor(
    folder: Annotated[Path, typer.Argument(help="A new or empty folder.")],
    tasks: Annotated[
        list[str] | None, typer.Argument(metavar="[TASK]...", help="Only these; all unless named.")
    ] = None,
    environment: Annotated[str, typer.Option(help="Where solutions are judged.")] = "h200",
    official: Annotated[
        bool, typer.Option("--official", help="With hidden inputs and certified solutions: for evaluators only.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Write tasks for Harbor, each with an image for the agent and one for the verifier, and a manifest of digests."""
    from verifier.exports.harbor import ExportError, export

    specification = find_environment(environment, as_json=as_json)
    try:
        chosen = [find_task(name, as_json=as_json) for name in tasks] if tasks else load_tasks()
        manifest = export(chosen, folder, specification, official=official)
    except (ExportError, TaskError) as error:
        raise fail(Exit.USAGE, str(error), as_json=as_json) from None
    if as_json:
        print(manifest.model_dump_json())
        return
    for item in manifest.tasks:
        out.print(f"{item.task}  {item.digest}  {item.folder}", highlight=False, soft_wrap=True)
