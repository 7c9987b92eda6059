"""Charts as Plotly figures: pure functions on plain data; colours are set by the page's script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go


@dataclass(frozen=True)
class Rate:
    """A share with its 95 % interval, all in percent."""

    label: str
    percent: float
    low: float
    high: float


def build_rate_figure(rates: Sequence[Rate], title: str) -> dict[str, Any]:
    """Return a dot chart of `rates` with their intervals, the first on top, as JSON-ready data."""
    points = go.Scatter(
        x=[rate.percent for rate in rates],
        y=[rate.label for rate in rates],
        mode="markers",
        marker={"size": 11, "symbol": "diamond"},
        error_x={
            "type": "data",
            "symmetric": False,
            "array": [round(rate.high - rate.percent, 2) for rate in rates],
            "arrayminus": [round(rate.percent - rate.low, 2) for rate in rates],
            "thickness": 2,
            "width": 7,
        },
        customdata=[[round(rate.low, 1), round(rate.high, 1)] for rate in rates],
        hovertemplate="%{y}: %{x:.1f} % [%{customdata[0]}, %{customdata[1]}]<extra></extra>",
        cliponaxis=False,
    )
    layout = go.Layout(
        template=go.layout.Template(),
        autosize=True,
        xaxis={"title": {"text": title}, "range": [0, 100], "ticksuffix": " %", "zeroline": False, "fixedrange": True},
        yaxis={"autorange": "reversed", "automargin": True, "fixedrange": True},
        margin={"t": 24, "r": 32, "b": 56, "l": 16},
        showlegend=False,
    )
    return go.Figure(points, layout).to_plotly_json()
