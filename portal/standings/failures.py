"""How runs failed: modes against systems, and against levels. Pure functions of counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from portal.standings.counts import FailureCount, Tally
from portal.standings.selection import Selection
from verifier.verdict import FailureMode

# How strongly a cell of the table is tinted: up to this share of its column's failed runs.
SHADES = (0.0, 0.05, 0.15, 0.3, 0.5)


class FailureGroup(StrEnum):
    """What was amiss: the artifact, the numbers, or the speed. This project's grouping of the failure modes."""

    DELIVERY = "Delivery"
    ARITHMETIC = "Arithmetic"
    SPEED = "Speed"

    @property
    def explanation(self) -> str:
        """What the group holds."""
        return _EXPLANATIONS[self]


_EXPLANATIONS = {
    FailureGroup.DELIVERY: "No valid Triton artifact did the timed work: it is missing, does not load, or something else ran.",
    FailureGroup.ARITHMETIC: "The numbers are wrong, stale, or less precise than the reference.",
    FailureGroup.SPEED: "Accepted work that did not reach the target.",
}
GROUPS = {
    FailureMode.MISSING_FILE: FailureGroup.DELIVERY,
    FailureMode.UNLOADABLE: FailureGroup.DELIVERY,
    FailureMode.STALE_OUTPUT: FailureGroup.ARITHMETIC,
    FailureMode.HIDDEN_DISTRIBUTION: FailureGroup.ARITHMETIC,
    FailureMode.INCORRECT: FailureGroup.ARITHMETIC,
    FailureMode.PRECISION_LOSS: FailureGroup.ARITHMETIC,
    FailureMode.NO_TRITON: FailureGroup.DELIVERY,
    FailureMode.CUDA_GRAPH: FailureGroup.DELIVERY,
    FailureMode.FOREIGN_BACKEND: FailureGroup.DELIVERY,
    FailureMode.TIMING_SIDESTEP: FailureGroup.DELIVERY,
    FailureMode.BELOW_FLOOR: FailureGroup.ARITHMETIC,
    FailureMode.BELOW_TARGET: FailureGroup.SPEED,
}


@dataclass(frozen=True)
class Cell:
    """How many runs, their share of the failed runs of the column, and the address of those runs."""

    runs: int
    share: float | None
    query: str
    shade: int


@dataclass(frozen=True)
class Column:
    """One system or level: what it is called, and what narrows the list of runs to it."""

    key: int | str
    label: str
    narrowing: Mapping[str, str]


@dataclass(frozen=True)
class FailureTable:
    """Failure modes against columns. Cells stand beside the label of their column, the last one for all columns."""

    labels: list[str]
    rows: list[tuple[FailureMode, list[tuple[str, Cell]]]]
    failed: list[tuple[str, Cell]]
    fast: list[tuple[str, Cell]]


def choose_shade(share: float | None) -> int:
    """Return how strongly to tint a cell, from 0 for nothing."""
    return sum(share > bound for bound in SHADES) if share else 0


def _build_cell(runs: int, failed: int, query: str) -> Cell:
    share = runs / failed if failed else None
    return Cell(runs, share, query, choose_shade(share))


def build_failure_table(
    failures: Iterable[FailureCount],
    tallies: Iterable[Tally],
    columns: Sequence[Column],
    read: Callable[[FailureCount | Tally], int | str],
    selection: Selection,
    **narrower: str,
) -> FailureTable:
    """Return the table of `failures`, of which `read` gives the column, with the runs rejected at or above target.

    `selection`, and what `narrower` adds to it, say which runs all of these are.
    """
    counts: Counter[tuple[FailureMode, int | str]] = Counter()
    for failure in failures:
        counts[failure.mode, read(failure)] += failure.runs
    fast: Counter[int | str] = Counter()
    for tally in tallies:
        fast[read(tally)] += tally.rejected_fast
    failed = [sum(runs for (_, key), runs in counts.items() if key == column.key) for column in columns]
    labels = [*(column.label for column in columns), "All"]
    modes = [mode for mode in FailureMode if any(counts[mode, column.key] for column in columns)]

    def fill(runs: list[int], **narrowing: str) -> list[tuple[str, Cell]]:
        links = [selection.link_runs(**narrower, **column.narrowing, **narrowing) for column in columns]
        cells = [_build_cell(*figures) for figures in zip(runs, failed, links, strict=True)]
        total = _build_cell(sum(runs), sum(failed), selection.link_runs(**narrower, **narrowing))
        return list(zip(labels, [*cells, total], strict=True))

    rows = [(mode, fill([counts[mode, column.key] for column in columns], mode=mode.value)) for mode in modes]
    rejected_fast = fill([fast[column.key] for column in columns], fast="on")
    return FailureTable(labels, rows, fill(failed, failed="on"), rejected_fast)


def group_failures(failures: Iterable[FailureCount]) -> dict[str, dict[FailureGroup, int]]:
    """Return the failed runs of each level by group."""
    groups: dict[str, dict[FailureGroup, int]] = {}
    for failure in failures:
        level = groups.setdefault(failure.level, dict.fromkeys(FailureGroup, 0))
        level[GROUPS[failure.mode]] += failure.runs
    return groups
