from __future__ import annotations

import json

import pytest

from portal.standings.charts import Rate, build_rate_figure
from portal.standings.published import build_rows, load_snapshot

RATES = [
    Rate(row.system, row.pass_rate_percent, row.low_percent, row.high_percent) for row in build_rows(load_snapshot())
]


def test_it_draws_the_published_rates_and_intervals() -> None:
    trace = build_rate_figure(RATES, "Pass rate")["data"][0]
    assert list(trace["x"]) == [67.0, 26.0, 20.7, 15.3]
    assert trace["y"][0] == "Claude Opus 5"
    assert list(trace["customdata"][0]) == [61.5, 72.1]
    assert trace["x"][0] - trace["error_x"]["arrayminus"][0] == pytest.approx(61.49, abs=0.01)
    assert trace["x"][0] + trace["error_x"]["array"][0] == pytest.approx(72.08, abs=0.01)


def test_it_is_small_json_without_a_template() -> None:
    figure = json.dumps(build_rate_figure(RATES, "Pass rate"))
    assert len(figure) < 3_000
    assert "colorscale" not in figure


def test_the_first_rate_is_on_top() -> None:
    assert build_rate_figure(RATES, "Pass rate")["layout"]["yaxis"]["autorange"] == "reversed"


def test_no_rates_make_an_empty_chart() -> None:
    assert not build_rate_figure([], "Pass rate")["data"][0]["x"]
