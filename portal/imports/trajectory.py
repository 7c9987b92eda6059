"""A trajectory in the ATIF form as a timeline: what was said and done, and when the agent asked the verifier. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

TEXT_CAP = 600
MOMENTS_CAP = 300
_COMMAND = re.compile(r"(?<![\w./-])kq\s+(profile|check|bench|submit)\b")
_SOURCES = {"system": "System", "user": "Task", "agent": "Agent"}


@dataclass(frozen=True)
class Moment:
    """One step: who, when, what was said and done, and which of the verifier's commands were used. Hostile text."""

    number: int
    source: str
    at: datetime | None
    text: str
    calls: list[str]
    marks: list[str]


@dataclass(frozen=True)
class Timeline:
    """The moments that are shown, of how many; all that are marked come first into it."""

    moments: list[Moment]
    total: int
    marked: int


def shorten(text: str) -> str:
    """Return a text without control characters, and cut where it is too long."""
    clean = "".join(character if character.isprintable() or character == "\n" else " " for character in text[:TEXT_CAP])
    return f"{clean.strip()}\u2026" if len(text) > TEXT_CAP else clean.strip()


def read_text(message: object) -> str:
    """Return the text of a message, which is a text or a list of parts."""
    if isinstance(message, str):
        return message
    parts = message if isinstance(message, list) else []
    return "\n".join(str(part.get("text") or "") for part in parts if isinstance(part, dict))


def read_time(value: object) -> datetime | None:
    """Return a moment with its time zone, or None."""
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return found if found is not None and found.tzinfo is not None else None


def write_call(call: dict[str, Any]) -> str:
    """Return a call of a tool as one text: a command as it was typed, where it is one."""
    arguments = call.get("arguments")
    texts = [value for value in arguments.values() if isinstance(value, str)] if isinstance(arguments, dict) else []
    what = texts[0] if len(texts) == 1 else json.dumps(arguments, ensure_ascii=False)
    return f"{call.get('function_name', '')}: {what}"


def list_moments(text: str) -> Iterator[Moment]:
    """Yield the steps of a trajectory; what has another form than expected is left out."""
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        return
    steps = body.get("steps") if isinstance(body, dict) else None
    for number, step in enumerate(steps if isinstance(steps, list) else [], start=1):
        if not isinstance(step, dict):
            continue
        calls = step.get("tool_calls")
        made = [write_call(call) for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
        marks = [found[1] for call in made for found in _COMMAND.finditer(call)]
        yield Moment(
            number=number,
            source=_SOURCES.get(str(step.get("source")), "Other"),
            at=read_time(step.get("timestamp")),
            text=shorten(read_text(step.get("message"))),
            calls=[shorten(call) for call in made[:10]],
            marks=list(dict.fromkeys(marks)),
        )


def build_timeline(text: str, cap: int = MOMENTS_CAP) -> Timeline | None:
    """Return the timeline of a trajectory with at most `cap` moments, or None when there is nothing to show."""
    moments = list(list_moments(text))
    if not moments:
        return None
    marked = [moment for moment in moments if moment.marks]
    chosen = marked[:cap]
    chosen += [moment for moment in moments if not moment.marks][: cap - len(chosen)]
    return Timeline(sorted(chosen, key=lambda moment: moment.number), len(moments), len(marked))
