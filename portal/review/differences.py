"""Two runs of one task side by side: sources, gates, timings. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher

from django.utils.safestring import SafeString

from portal.catalog.markup import highlight_lines, split_lines
from portal.runs.labels import SIDE_LABELS
from verifier.verdict import Check, Gate, Verdict

CONTEXT = 3
# Comparing takes time that grows faster than the number of lines.
MOST_LINES = 4_000


@dataclass(frozen=True)
class Line:
    """One row of a comparison; a side without a line has no number."""

    kind: str
    left_number: int | None
    left: SafeString | None
    right_number: int | None
    right: SafeString | None


@dataclass(frozen=True)
class Gap:
    """Equal lines that are left out."""

    lines: int


def _pair(kind: str, left: range, right: range, texts: tuple[list[SafeString], list[SafeString]]) -> Iterator[Line]:
    for offset in range(max(len(left), len(right))):
        one = left[offset] if offset < len(left) else None
        other = right[offset] if offset < len(right) else None
        yield Line(
            kind,
            None if one is None else one + 1,
            None if one is None else texts[0][one],
            None if other is None else other + 1,
            None if other is None else texts[1][other],
        )


def _fold(lines: list[Line], *, first: bool, last: bool) -> list[Line | Gap]:
    """Leave out the middle of a stretch of equal lines."""
    head, tail = 0 if first else CONTEXT, 0 if last else CONTEXT
    hidden = len(lines) - head - tail
    if hidden <= 1:
        return list(lines)
    return [*lines[:head], Gap(hidden), *lines[len(lines) - tail :]]


def compare_sources(left: str, right: str) -> list[Line | Gap] | None:
    """Return the two sources line by line, or None when they are too long to compare."""
    first, second = split_lines(left), split_lines(right)
    if max(len(first), len(second)) > MOST_LINES:
        return None
    texts = highlight_lines(left), highlight_lines(right)
    rows: list[Line | Gap] = []
    codes = SequenceMatcher(None, first, second).get_opcodes()
    for place, (tag, start, end, other_start, other_end) in enumerate(codes):
        lines = list(_pair(tag, range(start, end), range(other_start, other_end), texts))
        if tag == "equal":
            rows += _fold(lines, first=place == 0, last=place == len(codes) - 1)
        else:
            rows += lines
    return rows


@dataclass(frozen=True)
class CheckPair:
    """One check as it came out in two runs; None where a run did not come to it."""

    gate: Gate
    label: str
    left: Check | None
    right: Check | None

    @property
    def differs(self) -> bool:
        """True when the two came out otherwise."""
        return (self.left and self.left.passed) != (self.right and self.right.passed)


def compare_gates(left: Verdict, right: Verdict) -> list[CheckPair]:
    """Return every check of the two verdicts, by gate, in the order of the first."""
    sides: list[dict[tuple[Gate, str], Check]] = [
        {(result.gate, check.name): check for result in verdict.gates for check in result.checks}
        for verdict in (left, right)
    ]
    keys = sorted(dict.fromkeys([*sides[0], *sides[1]]), key=lambda key: list(Gate).index(key[0]))
    return [
        CheckPair(key[0], (sides[0].get(key) or sides[1][key]).label, sides[0].get(key), sides[1].get(key))
        for key in keys
    ]


def compare_timings(left: Verdict, right: Verdict) -> list[tuple[str, float | None, float | None]]:
    """Return mean milliseconds of each side in the two verdicts, empty when neither was timed."""
    timings = [verdict.evidence.timing for verdict in (left, right)]
    if not any(timings):
        return []
    means = [{name: side.mean for name, side in timing.sides.items()} if timing else {} for timing in timings]
    return [(label, means[0].get(name), means[1].get(name)) for name, label in SIDE_LABELS.items()]  # type: ignore[call-overload]
