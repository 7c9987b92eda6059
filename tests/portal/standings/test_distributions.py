from __future__ import annotations

import json
import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.standings.charts import build_distribution_figure
from portal.standings.distributions import EDGES, build_distribution, choose_ticks, find_bin
from verifier.verdict import Outcome

RESULTS = [
    ("passed", 1.7), ("passed", 2.0), ("below_target", 1.5), ("rejected", 1.6), ("rejected", 27.86), ("rejected", None),
]  # fmt: skip


def test_runs_fall_into_bins_by_outcome() -> None:
    shown = build_distribution(RESULTS, target=1.6)
    assert shown.outcomes == [Outcome.PASSED, Outcome.BELOW_TARGET, Outcome.REJECTED]
    assert [(one.low, one.high, one.runs) for one in shown.filled] == [
        (1.5, 2.0, [1, 1, 1]), (2.0, 2.5, [1, 0, 0]), (25.0, 30.0, [0, 0, 1]),
    ]  # fmt: skip
    assert (shown.untimed, shown.totals, shown.runs) == ([0, 0, 1], [2, 1, 3], 6)


def test_bins_follow_one_another_without_a_gap() -> None:
    bins = build_distribution(RESULTS).bins
    assert all(one.high == following.low for one, following in pairwise(bins))
    assert (bins[0].low, bins[-1].high) == (1.5, 30.0)


@given(
    st.lists(st.tuples(st.sampled_from(["passed", "accepted", "below_target", "rejected"]), st.none() | st.floats()))
)
def test_every_run_is_in_one_place(results: list[tuple[str, float | None]]) -> None:
    shown = build_distribution(results)
    assert shown.runs == len(results)
    assert sum(shown.totals) == sum(sum(one.runs) for one in shown.bins) + sum(shown.untimed)
    json.dumps(build_distribution_figure(shown), allow_nan=False)


@given(st.floats(min_value=EDGES[0], max_value=EDGES[-1], exclude_max=True))
def test_a_bin_holds_its_lower_edge(speedup: float) -> None:
    number = find_bin(speedup)
    assert EDGES[number] <= speedup < EDGES[number + 1]


@pytest.mark.parametrize(("speedup", "number"), [(1e-9, 0), (1e9, len(EDGES) - 2)])
def test_what_no_stopwatch_should_say_is_shown_at_the_ends(speedup: float, number: int) -> None:
    assert find_bin(speedup) == number


def test_the_chart_has_the_runs_of_the_table_and_lines_at_target_and_floor() -> None:
    figure = build_distribution_figure(build_distribution(RESULTS, target=1.6, floor=20.0))
    bars = {trace["name"]: sum(trace["y"]) for trace in figure["data"]}
    assert bars == {"Passed": 2, "Accepted, below target": 1, "Rejected": 2}
    assert [10 ** line["x0"] for line in figure["layout"]["shapes"]] == pytest.approx([1.6, 20.0])
    assert [name["text"] for name in figure["layout"]["annotations"]] == ["target", "floor"]


def test_a_line_beyond_the_runs_is_still_seen() -> None:
    low, high = build_distribution_figure(build_distribution([("rejected", 1.1)], target=8.0))["layout"]["xaxis"][
        "range"
    ]
    assert low < 0 < math.log10(8.0) < high


def test_outcomes_are_told_by_more_than_their_colour() -> None:
    results = [(outcome.value, 2.0) for outcome in Outcome if outcome is not Outcome.INFRASTRUCTURE]
    traces = build_distribution_figure(build_distribution(results))["data"]
    assert len({(trace["meta"]["colour"], trace["marker"]["pattern"]["shape"]) for trace in traces}) == 4
    assert len({trace["marker"]["pattern"]["shape"] for trace in traces}) == 3


def test_few_bins_name_every_edge_and_many_only_some() -> None:
    assert choose_ticks(build_distribution([("passed", 1.6)]).bins) == [1.5, 2.0]
    assert choose_ticks(build_distribution([("passed", 1.6), ("passed", 60.0)]).bins) == [2.0, 5.0, 10.0, 20.0, 50.0]
    assert choose_ticks([]) == []
