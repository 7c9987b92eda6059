from __future__ import annotations

import json
from typing import Any

import plotly.graph_objects as go
import pytest

from portal.standings.charts import (
    SERIES,
    Point,
    Rate,
    TaskPoint,
    build_distribution_figure,
    build_level_figure,
    build_rate_figure,
    build_stopwatch_figure,
    build_task_figure,
    build_timing_figure,
)
from portal.standings.distributions import build_distribution
from portal.standings.published import build_rows, load_snapshot

RATES = [
    Rate(row.system, row.pass_rate_percent, row.low_percent, row.high_percent) for row in build_rows(load_snapshot())
]


def test_it_draws_the_published_rates_and_intervals() -> None:
    trace = build_rate_figure(RATES, "Pass rate")["data"][0]
    assert list(trace["x"]) == [67.0, 26.0, 20.7, 15.3]
    assert trace["text"][0] == "Claude Opus 5"
    assert list(trace["customdata"][0]) == [61.5, 72.1]
    assert trace["x"][0] - trace["error_x"]["arrayminus"][0] == pytest.approx(61.49, abs=0.01)
    assert trace["x"][0] + trace["error_x"]["array"][0] == pytest.approx(72.08, abs=0.01)


def test_it_is_small_json_without_a_template() -> None:
    figure = json.dumps(build_rate_figure(RATES, "Pass rate"))
    assert len(figure) < 3_000
    assert "colorscale" not in figure


def test_the_first_rate_is_on_top() -> None:
    axis = build_rate_figure(RATES, "Pass rate")["layout"]["yaxis"]
    assert (axis["ticktext"][0], axis["tickvals"][0]) == ("Claude Opus 5", 0)
    assert axis["range"][0] > axis["range"][1]


def test_two_systems_of_one_name_have_a_row_each() -> None:
    figure = build_rate_figure([RATES[0], RATES[0]], "Pass rate")
    assert figure["data"][0]["y"] == figure["layout"]["yaxis"]["tickvals"] == [0, 1]


def test_a_name_is_a_text_and_not_markup() -> None:
    name = '<a href="https://example.org">&lt;b&gt;</a>' + "x" * 100
    rate = Rate(name, 50.0, 40.0, 60.0)
    figures = [
        build_rate_figure([rate], "Pass rate"),
        build_level_figure(["L1"], {name: [rate]}, "Pass rate"),
        build_stopwatch_figure([Point(name, 1.7, counted=True)], None),
        build_task_figure([TaskPoint("l1-01", name, 2.0, None)]),
    ]
    for figure in figures:
        assert "<a" not in json.dumps(figure)
        assert "x" * 100 not in json.dumps(figure)
    assert figures[0]["layout"]["yaxis"]["ticktext"][0].startswith("&lt;a href=")


def test_no_rates_make_an_empty_chart() -> None:
    assert not build_rate_figure([], "Pass rate")["data"][0]["x"]


def test_levels_stand_side_by_side_with_a_gap_where_nothing_is_known() -> None:
    figure = build_level_figure(["L1", "L2"], {"a": [RATES[0], None], "b": [RATES[1], RATES[2]]}, "Pass rate")
    first, second = figure["data"]
    assert list(first["y"]) == [67.0, None]
    assert first["x"][0] < 0 < second["x"][0]
    assert first["marker"]["symbol"] != second["marker"]["symbol"]
    assert figure["layout"]["showlegend"] is True


def test_only_as_many_systems_are_drawn_as_have_a_symbol() -> None:
    systems = {str(number): [RATES[0]] for number in range(SERIES + 3)}
    assert len(build_level_figure(["L1"], systems, "Pass rate")["data"]) == SERIES


def test_the_stopwatch_is_told_from_what_counted() -> None:
    points = [
        Point("honest", 1.7, counted=True),
        Point("cheat", 27.86, counted=False),
        Point("others", 1.7, counted=False, at_least=True),
    ]
    figure = build_stopwatch_figure(points, 1.63)
    assert [(trace["name"], trace["y"], trace["text"]) for trace in figure["data"]] == [
        ("counted", [0], ["honest"]), ("stopwatch only, not counted", [1], ["cheat"]),
        ("stopwatch only, above this", [2], ["others"]),
    ]  # fmt: skip
    assert figure["layout"]["yaxis"]["ticktext"] == ["honest", "cheat", "others"]
    assert figure["layout"]["shapes"][0]["x0"] == 1.63
    low, high = (10**end for end in figure["layout"]["xaxis"]["range"])
    assert low < 1
    assert high > 27.86
    assert not build_stopwatch_figure(points, None)["layout"]["shapes"]


def test_target_and_floor_are_named_and_have_room() -> None:
    layout = build_stopwatch_figure([Point("a", 1.7, counted=True)], 1.63, 8.0)["layout"]
    assert [line["x0"] for line in layout["shapes"]] == [1.63, 8.0]
    assert [(name["text"], round(10 ** name["x"], 2)) for name in layout["annotations"]] == [
        ("target", 1.63), ("floor", 8.0),
    ]  # fmt: skip
    assert 10 ** layout["xaxis"]["range"][1] > 8


def test_a_task_has_its_speedup_beside_its_target_and_either_may_be_missing() -> None:
    points = [TaskPoint("l1-01", "First", 3.0, 2.0), TaskPoint("l1-02", "Second", None, 40.0)]
    figure = build_task_figure([*points, TaskPoint("l1-03", "Third", 0.5, None)])
    counted, target = figure["data"]
    assert (counted["x"], counted["y"]) == ([3.0, 0.5], [0, 2])
    assert (target["x"], target["y"]) == ([2.0, 40.0], [0, 1])
    low, high = (10**end for end in figure["layout"]["xaxis"]["range"])
    assert low < 0.5
    assert high > 40
    assert figure["layout"]["height"] > build_task_figure(points)["layout"]["height"]


def test_every_timed_call_is_drawn_with_the_floor() -> None:
    figure = build_timing_figure({"eager": [2.0, 2.1], "submission": [1.0]}, 0.5)
    assert [list(trace["y"]) for trace in figure["data"]] == [[2.0, 2.1], [1.0]]
    assert figure["layout"]["shapes"][0]["y0"] == 0.5


@pytest.mark.parametrize(
    "figure",
    [
        build_rate_figure(RATES, "Pass rate"),
        build_level_figure(["L1", "L2"], {"a": [RATES[0], None], "b": [RATES[1], RATES[2]]}, "Pass rate"),
        build_stopwatch_figure([Point("a", 1.7, counted=True), Point("b", 9.0, counted=False)], 1.63, 8.0),
        build_timing_figure({"eager": [2.0, 2.1], "submission": [1.0]}, 0.5),
        build_task_figure([TaskPoint("l1-01", "First", 3.0, 2.0), TaskPoint("l1-02", "Second", None, None)]),
        build_distribution_figure(build_distribution([("passed", 2.0), ("rejected", 5.0)], 1.6, 3.0)),
    ],
)
def test_plotly_knows_every_part(figure: dict[str, Any]) -> None:
    assert go.Figure(figure).to_plotly_json()["data"]
