"""Which run a file of a campaign is for, by its name alone.

Somewhere in the name stands the task, by its number or its slug, as a folder or as the file. A number beside it, or a
number with a word such as `rep` before it, is the repetition; without one it is the first.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass

from portal.runs.uploads import UploadError, refuse_archive

REPETITIONS = 3
NAME_CAP = 200
_WORD = r"(?:repetition|rep|run|attempt|sample|r)"
_WORDED = re.compile(rf"{_WORD}[ _-]?0*(\d{{1,3}})", re.IGNORECASE | re.ASCII)
_BARE = re.compile(r"0*(\d{1,3})", re.ASCII)
_SUFFIXED = re.compile(rf"(.+?)[ ._-]+(?:{_WORD}[ _-]?)?0*(\d{{1,3}})", re.IGNORECASE | re.ASCII)
# What a file is called that says nothing but that it is one.
_PLAIN = frozenset({"solution", "submission", "kernel", "model", "model_new", "modelnew"})


@dataclass(frozen=True)
class Place:
    """What a file is for: a task by its number, and a repetition from 1."""

    task: str
    repetition: int


class PlaceError(ValueError):
    """Why a name says not what its file is for, and what to do."""


def clean_name(name: str) -> str:
    """Return the path of a file within a campaign, with `/` between folders. Raises UploadError."""
    path = unicodedata.normalize("NFC", name.replace("\\", "/")).strip("/")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if not parts or ".." in parts or any(not character.isprintable() for character in path):
        raise UploadError("The name of the file cannot be kept. Use letters, digits, '-', '_' and folders.")
    cleaned = "/".join(parts)
    if len(cleaned) > NAME_CAP:
        raise UploadError(f"The name of the file has more than {NAME_CAP} characters. Shorten it.")
    refuse_archive(cleaned)
    if not cleaned.lower().endswith(".py"):
        raise UploadError("This is not a Python file by its name. Only files that end in .py are taken.")
    return cleaned


def find_place(name: str, tasks: Mapping[str, str]) -> Place:
    """Return what the file `name` is for. `tasks` gives the number for each number and slug in lower case.

    Raises PlaceError.
    """
    parts = name[: -len(".py")].split("/")
    named = [(position, *found) for position, part in enumerate(parts) if (found := _read_task(part, tasks))]
    chosen = {task for _, task, _ in named}
    if not chosen:
        raise PlaceError("No part of the name is a task. Call it after one, such as l1-09/1.py or l1-09_rep1.py.")
    if len(chosen) > 1:
        raise PlaceError(f"The name holds more than one task: {', '.join(sorted(chosen))}. Keep one.")
    places = {position for position, _, _ in named}
    numbers = {number for _, _, number in named if number is not None}
    for position, part in enumerate(parts):
        if position not in places:
            numbers |= _read_repetition(part, beside=bool({position - 1, position + 1} & places))
    if len(numbers) > 1:
        raise PlaceError(f"The name holds more than one repetition: {', '.join(map(str, sorted(numbers)))}. Keep one.")
    repetition = numbers.pop() if numbers else 1
    if not 1 <= repetition <= REPETITIONS:
        raise PlaceError(f"Repetition {repetition} is not one of 1 to {REPETITIONS}.")
    return Place(chosen.pop(), repetition)


def _read_task(part: str, tasks: Mapping[str, str]) -> tuple[str, int | None] | None:
    """Return the task that a part of a name is, and the repetition behind it."""
    # As it stands first: the number of a task ends like a repetition.
    if whole := tasks.get(part.lower()):
        return whole, None
    suffixed = _SUFFIXED.fullmatch(part)
    task = tasks.get(suffixed[1].lower()) if suffixed else None
    return (task, int(suffixed[2])) if suffixed and task else None


def _read_repetition(part: str, *, beside: bool) -> set[int]:
    """Return the repetition that a part of a name is; a bare number only where it stands beside the task."""
    found = _WORDED.fullmatch(part) or (_BARE.fullmatch(part) if beside else None)
    if found:
        return {int(found[1])}
    suffixed = _SUFFIXED.fullmatch(part)
    return {int(suffixed[2])} if suffixed and suffixed[1].lower() in _PLAIN else set()
