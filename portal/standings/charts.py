"""Charts as Plotly figures: pure functions on plain data. Colours are names of the style sheet, set by the page's script.

Plotly's own classes check what they are given, at every page; here the tests let them check what is built.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from portal.runs.labels import OUTCOME_LABELS
from portal.standings.distributions import Distribution, choose_ticks
from verifier.verdict import Outcome

# A system is told by its symbol as well as by its colour.
_SYMBOLS = ("diamond", "circle", "square", "triangle-up", "cross", "star")
SERIES = len(_SYMBOLS)
# The names of lines stand between the legend and the chart.
_LEGEND_ABOVE_NAMES = {"orientation": "h", "y": 1.1, "yanchor": "bottom", "x": 0}
# Where an axis of speedups is labelled.
SPEEDUPS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)
LONGEST_LABEL = 48
# What a task needs in a chart of all of them, so that its name can be read.
ROW_PIXELS = 20


@dataclass(frozen=True)
class Rate:
    """A share with its 95 % interval, all in percent."""

    label: str
    percent: float
    low: float
    high: float


@dataclass(frozen=True)
class Point:
    """One run, or several alike, by what the stopwatch said. `at_least` marks a speedup that is only a lower bound."""

    label: str
    speedup: float
    counted: bool
    at_least: bool = False


@dataclass(frozen=True)
class TaskPoint:
    """The counted speedup of a task, and its certified target; None for what there is not."""

    label: str
    title: str
    speedup: float | None
    target: float | None


def write_label(name: str) -> str:
    """Return a name as a chart writes it: Plotly reads markup in texts, and a long name takes the room of the chart."""
    short = name if len(name) <= LONGEST_LABEL else f"{name[: LONGEST_LABEL - 1]}\u2026"
    return escape(short, quote=False)


def _build_row_axis(labels: Sequence[str]) -> dict[str, Any]:
    """Return an axis with one row a label, the first on top. Rows are numbers, for two systems may have one name."""
    return {
        "tickvals": list(range(len(labels))),
        "ticktext": [write_label(label) for label in labels],
        "range": [len(labels) - 0.5, -0.5],
        "automargin": True,
        "zeroline": False,
        "fixedrange": True,
    }


def _scatter(**trace: Any) -> dict[str, Any]:
    return {"type": "scatter"} | trace


def _bar(**trace: Any) -> dict[str, Any]:
    return {"type": "bar"} | trace


def _error_bars(rates: Sequence[Rate | None]) -> dict[str, Any]:
    return {
        "type": "data",
        "symmetric": False,
        "array": [round(rate.high - rate.percent, 2) if rate else None for rate in rates],
        "arrayminus": [round(rate.percent - rate.low, 2) if rate else None for rate in rates],
        "thickness": 2,
        "width": 7,
    }


def _build_figure(traces: Sequence[dict[str, Any]], **layout: Any) -> dict[str, Any]:
    usual: dict[str, Any] = {"autosize": True, "showlegend": len(traces) > 1}
    usual["margin"] = {"t": 24, "r": 32, "b": 64, "l": 16}
    usual["legend"] = {"orientation": "h", "y": 1, "yanchor": "bottom", "x": 0}
    return {"data": list(traces), "layout": usual | layout}


def build_rate_figure(rates: Sequence[Rate], title: str) -> dict[str, Any]:
    """Return a dot chart of `rates` with their intervals, the first on top, as JSON-ready data."""
    points = _scatter(
        x=[rate.percent for rate in rates],
        y=list(range(len(rates))),
        text=[write_label(rate.label) for rate in rates],
        mode="markers",
        marker={"size": 11, "symbol": "diamond"},
        error_x=_error_bars(rates),
        customdata=[[round(rate.low, 1), round(rate.high, 1)] for rate in rates],
        hovertemplate="%{text}: %{x:.1f} % [%{customdata[0]}, %{customdata[1]}]<extra></extra>",
        cliponaxis=False,
    )
    return _build_figure(
        [points],
        xaxis={
            "title": {"text": title, "standoff": 12},
            "range": [0, 100],
            "ticksuffix": " %",
            "zeroline": False,
            "fixedrange": True,
        },
        yaxis=_build_row_axis([rate.label for rate in rates]),
    )


def build_level_figure(
    levels: Sequence[str], systems: Mapping[str, Sequence[Rate | None]], title: str
) -> dict[str, Any]:
    """Return the rates of the first systems by level, side by side at each level, as JSON-ready data."""
    shown = list(systems.items())[:SERIES]
    traces = []
    for number, (name, rates) in enumerate(shown):
        shift = 0.12 * (number - (len(shown) - 1) / 2)
        traces.append(
            _scatter(
                x=[index + shift for index in range(len(levels))],
                y=[rate.percent if rate else None for rate in rates],
                name=write_label(name),
                mode="markers",
                marker={"size": 10, "symbol": _SYMBOLS[number]},
                error_y=_error_bars(rates),
                meta={"colour": f"series-{number + 1}"},
                hovertemplate="%{y:.1f} %",
                cliponaxis=False,
            )
        )
    return _build_figure(
        traces,
        xaxis={"tickvals": list(range(len(levels))), "ticktext": list(levels), "zeroline": False, "fixedrange": True},
        yaxis={"title": {"text": title}, "range": [0, 100], "ticksuffix": " %", "automargin": True, "fixedrange": True},
    )


def _build_speedup_axis(shown: Sequence[float]) -> dict[str, Any]:
    """Return a logarithmic axis on which all speedups of `shown` have room."""
    return {
        "type": "log", "title": {"text": "Speedup over the faster baseline", "standoff": 12}, "tickvals": SPEEDUPS,
        "range": [math.log10(0.9 * min(shown)), math.log10(1.2 * max(shown))],
        "ticktext": [f"{tick:g}x" for tick in SPEEDUPS], "zeroline": False, "fixedrange": True,
    }  # fmt: skip


def _build_marks(
    target: float | None, floor: float | None, place: Callable[[float], float]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return lines at target and floor, `place` says where, with their names, which stand at the logarithm."""
    marks = [("target", target, "dash"), ("floor", floor, "dot")]
    known = [(name, value, dash) for name, value, dash in marks if value]
    lines = [
        {"type": "line", "x0": x, "x1": x, "y0": 0, "y1": 1, "yref": "paper", "line": {"dash": dash}}
        for x, dash in ((place(value), dash) for _, value, dash in known)
    ]
    names = [
        {"x": math.log10(value), "y": 1, "yref": "paper", "yanchor": "bottom", "text": name, "showarrow": False}
        for name, value, _ in known
    ]
    return lines, names


def build_stopwatch_figure(points: Sequence[Point], target: float | None, floor: float | None = None) -> dict[str, Any]:
    """Return what the stopwatch said of each run against what counted, on a logarithmic axis, as JSON-ready data.

    `floor` is the speedup that the hardware permits at most.
    """
    rows = list(enumerate(points))
    kinds = [
        ("counted", "diamond", "good", [row for row in rows if row[1].counted]),
        ("stopwatch only, not counted", "x", "bad", [row for row in rows if not (row[1].counted or row[1].at_least)]),
        (
            "stopwatch only, above this", "triangle-right", "bad",
            [row for row in rows if row[1].at_least and not row[1].counted],
        ),
    ]  # fmt: skip
    traces = [
        _scatter(
            x=[point.speedup for _, point in kept],
            y=[row for row, _ in kept],
            text=[write_label(point.label) for _, point in kept],
            name=name,
            mode="markers",
            marker={"size": 12, "symbol": symbol},
            meta={"colour": colour},
            hovertemplate="%{text}: %{x:.2f}x<extra></extra>",
            cliponaxis=False,
        )
        for name, symbol, colour, kept in kinds
        if kept
    ]
    lines, names = _build_marks(target, floor, lambda value: value)
    return _build_figure(
        traces,
        shapes=lines,
        annotations=names,
        # No gain stands at the left edge unless a run was slower than that.
        xaxis=_build_speedup_axis([1.0, 2.0, *(point.speedup for point in points), *([floor] if floor else [])]),
        yaxis=_build_row_axis([point.label for point in points]),
        legend=_LEGEND_ABOVE_NAMES,
        margin={"t": 72, "r": 32, "b": 64, "l": 16},
        showlegend=True,
    )


def build_task_figure(points: Sequence[TaskPoint]) -> dict[str, Any]:
    """Return the counted speedup of each task against its target, on a logarithmic axis, as JSON-ready data."""
    known = [value for point in points for value in (point.speedup, point.target) if value]
    rows = list(enumerate(points))
    kinds = [
        ("counted speedup", "diamond", "accent", [(row, one, one.speedup) for row, one in rows if one.speedup]),
        ("certified target", "line-ns-open", "ink", [(row, one, one.target) for row, one in rows if one.target]),
    ]
    traces = [
        _scatter(
            x=[value for _, _, value in kept],
            y=[row for row, _, _ in kept],
            text=[write_label(f"{point.label} {point.title}") for _, point, _ in kept],
            name=name,
            mode="markers",
            marker={"size": 10, "symbol": symbol, "line": {"width": 2 * symbol.endswith("-open")}},
            meta={"colour": colour},
            hovertemplate="%{text}: %{x:.2f}x",
            cliponaxis=False,
        )
        for name, symbol, colour, kept in kinds
        if kept
    ]
    no_gain = {"type": "line", "x0": 1, "x1": 1, "y0": 0, "y1": 1, "yref": "paper", "line": {"dash": "dot"}}
    return _build_figure(
        traces,
        height=ROW_PIXELS * len(points) + 140,
        shapes=[no_gain],
        xaxis=_build_speedup_axis([1.0, 2.0, *known]),
        yaxis=_build_row_axis([point.label for point in points]),
        showlegend=True,
    )


def build_timing_figure(sides: Mapping[str, Sequence[float]], floor: float | None) -> dict[str, Any]:
    """Return every timed call of each side in milliseconds, in the order of the calls, as JSON-ready data."""
    traces = [
        _scatter(
            x=list(range(1, len(samples) + 1)),
            y=list(samples),
            name=name,
            mode="markers",
            marker={"size": 5, "symbol": _SYMBOLS[number]},
            meta={"colour": f"series-{number + 1}"},
            hovertemplate="call %{x}: %{y:.4g} ms",
        )
        for number, (name, samples) in enumerate(sides.items())
    ]
    line = [{"type": "line", "x0": 0, "x1": 1, "xref": "paper", "y0": floor, "y1": floor, "line": {"dash": "dash"}}]
    return _build_figure(
        traces,
        **({"shapes": line} if floor else {}),
        xaxis={"title": {"text": "Timed call", "standoff": 12}, "zeroline": False, "fixedrange": True},
        yaxis={
            "title": {"text": "Milliseconds"}, "rangemode": "tozero", "automargin": True, "fixedrange": True,
        },
    )  # fmt: skip


# An outcome is told by its hatching as well as by its colour.
_BARS = {
    Outcome.PASSED: ("good", ""),
    Outcome.ACCEPTED: ("accent", ""),
    Outcome.BELOW_TARGET: ("quiet", "/"),
    Outcome.REJECTED: ("bad", "x"),
}


def build_distribution_figure(distribution: Distribution) -> dict[str, Any]:
    """Return the timed runs of a task by speedup, stacked by outcome, as JSON-ready data."""
    bins = distribution.bins
    ends = [(math.log10(one.low), math.log10(one.high)) for one in bins]
    spans = [f"{one.low:g}x to {one.high:g}x" for one in bins]
    traces = [
        _bar(
            x=[(low + high) / 2 for low, high in ends],
            width=[high - low for low, high in ends],
            y=[one.runs[number] for one in bins],
            name=OUTCOME_LABELS[outcome],
            marker={"pattern": {"shape": _BARS[outcome][1], "fillmode": "replace", "size": 7, "solidity": 0.3}},
            meta={"colour": _BARS[outcome][0]},
            customdata=spans,
            hovertemplate="%{customdata}: %{y} runs",
        )
        for number, outcome in enumerate(distribution.outcomes)
        if any(one.runs[number] for one in bins)
    ]
    lines, names = _build_marks(distribution.target, distribution.floor, math.log10)
    ticks = choose_ticks(bins)
    shown = [*ends[0], *ends[-1], *(line["x0"] for line in lines)] if ends else [0.0, 1.0]
    return _build_figure(
        traces,
        barmode="stack",
        shapes=lines,
        annotations=names,
        xaxis={
            "title": {"text": "Speedup by the stopwatch", "standoff": 12},
            "tickvals": [math.log10(tick) for tick in ticks], "ticktext": [f"{tick:g}x" for tick in ticks],
            "range": [min(shown) - 0.03, max(shown) + 0.03], "zeroline": False, "fixedrange": True,
        },
        yaxis={
            "title": {"text": "Runs"}, "rangemode": "tozero", "tickformat": "d", "automargin": True, "fixedrange": True,
        },
        legend=_LEGEND_ABOVE_NAMES | {"traceorder": "normal"},
        margin={"t": 72, "r": 32, "b": 64, "l": 16},
        showlegend=True,
    )  # fmt: skip
