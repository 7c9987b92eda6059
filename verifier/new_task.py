"""Writes the files of a new task: a small one that works, to be changed into what it is to become."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

from pydantic import ValidationError

from verifier.task import REQUIRED_FILES, TaskError, TaskSpecification, find_tasks_root, list_task_folders, parse_toml

TEMPLATE = Path(__file__).resolve().parent.parent / "tasks" / "template"


def write_task(values: dict[str, str], root: Path | None = None) -> Path:
    """Write a task with the given id, slug, title, level and family, and return its folder.

    Raises TaskError when one of them does not fit, when the id is taken, or when the folder is there already.
    """
    root = root or find_tasks_root()
    folder = root / values["level"].lower() / values["slug"]
    check_values(values, folder / "task.toml")
    if folder.exists():
        raise TaskError(folder, "", "is there already, and nothing is overwritten")
    taken = [path for path in list_task_folders(root) if parse_toml(path / "task.toml").get("id") == values["id"]]
    if taken:
        raise TaskError(folder / "task.toml", "id", f"{values['id']} is also the id of {taken[0]}")
    folder.mkdir(parents=True)
    for name in REQUIRED_FILES:
        (folder / name).write_text(fill_in(name, values), encoding="utf-8")
    return folder


def fill_in(name: str, values: dict[str, str]) -> str:
    """Return the text of one of a new task's files."""
    text = (TEMPLATE / name).read_text(encoding="utf-8")
    for key, value in values.items():
        # A JSON string without its quotation marks is what stands between those of a TOML string.
        text = text.replace(
            f"{{{{{key}}}}}", json.dumps(value, ensure_ascii=False)[1:-1] if name.endswith(".toml") else value
        )
    return text


def check_values(values: dict[str, str], path: Path) -> None:
    """Raise TaskError when the values do not make a sound specification."""
    try:
        TaskSpecification.model_validate(tomllib.loads(fill_in("task.toml", values)))
    except tomllib.TOMLDecodeError as error:
        raise TaskError(path, "", f"a value cannot stand in TOML: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        raise TaskError(path, ".".join(map(str, first["loc"])), first["msg"]) from error
