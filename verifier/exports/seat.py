"""The agent's workspace in an exported task: made with the image, and begun by the first command of the agent."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime, timedelta
from pathlib import Path

from verifier.task import load_task
from verifier.workspaces.workspace import SETTINGS, create, open_workspace, replace

BEGUN = "begun"


def begin(folder: Path, now: datetime | None = None) -> bool:
    """Let the time of a workspace begin, once; return whether it began now. Raises WorkspaceError for a damaged one."""
    workspace = open_workspace(folder)
    if workspace is None:
        return False
    try:
        (workspace.state / BEGUN).touch(exist_ok=False)
    except FileExistsError:
        return False
    settings = workspace.settings
    begun = now or datetime.now(UTC)
    changed = settings.model_copy(
        update={"created_at": begun, "ends_at": begun + (settings.ends_at - settings.created_at)}
    )
    replace(workspace.state / SETTINGS, f"{changed.model_dump_json(indent=2)}\n".encode())
    return True


def main(arguments: list[str] | None = None) -> None:
    """Make a workspace, or let its time begin."""
    parser = argparse.ArgumentParser(prog="python -m verifier.exports.seat")
    verbs = parser.add_subparsers(dest="verb", required=True)
    making = verbs.add_parser("create")
    making.add_argument("task")
    making.add_argument("folder", type=Path)
    making.add_argument("environment")
    making.add_argument("--target", type=float)
    making.add_argument("--minutes", type=float, default=60.0)
    beginning = verbs.add_parser("begin")
    beginning.add_argument("folder", type=Path)
    given = parser.parse_args(arguments)
    if given.verb == "begin":
        begin(given.folder)
        return
    hours = timedelta(minutes=given.minutes) / timedelta(hours=1)
    create(load_task(given.task), given.folder, given.environment, given.target, hours)


if __name__ == "__main__":
    main()
