from __future__ import annotations

import pytest

from portal.runs.templatetags.run_display import (
    allowed,
    dimensions,
    figure,
    joined,
    milliseconds,
    observed,
    percentage,
    phase_label,
    span,
    speedup,
)
from verifier.verdict import Check, Figure


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "\u2013"),
        (True, "yes"),
        (False, "no"),
        (0, "0"),
        (1234567, "1,234,567"),
        (0.0, "0"),
        (0.123456, "0.1235"),
        (3.2e-7, "3.2e-07"),
        (12345.6, "12,346"),
        (1.5e20, "1.5e+20"),
        (float("inf"), "inf"),
        (float("nan"), "nan"),
        ("float32", "float32"),
    ],
)
def test_figure(value: Figure, text: str) -> None:
    assert figure(value) == text


@pytest.mark.parametrize(
    ("check", "texts"),
    [
        (
            Check(name="n", label="l", passed=True, observed=3, allowed=4096, bound="at most", unit="bytes"),
            ("3 bytes", "at most 4,096 bytes"),
        ),
        (Check(name="n", label="l", passed=True, observed=0.9, allowed=0.5, unit="share"), ("0.9 share", "0.5 share")),
        (Check(name="n", label="l", passed=True, observed="none"), ("none", "\u2013")),
        (Check(name="n", label="l", passed=None, unit="bytes"), ("\u2013", "\u2013")),
    ],
)
def test_observed_and_allowed(check: Check, texts: tuple[str, str]) -> None:
    assert (observed(check), allowed(check)) == texts


def test_shares_and_speedups() -> None:
    assert (percentage(0.4567), percentage(None)) == ("45.7 %", "\u2013")
    assert (speedup(1.7), speedup(None)) == ("1.70x", "\u2013")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.98, "1.980"),
        (0.087976, "0.08798"),
        (1000.4, "1000"),
        (23456.7, "23,457"),
        (0.0, "0.000"),
        (None, "\u2013"),
    ],
)
def test_milliseconds(value: float | None, text: str) -> None:
    assert milliseconds(value) == text


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ((1410, 1905, 1980), "1,410 to 1,980 MHz, median 1,905"),
        ((1980, 1980, 1980), "1,980 MHz"),
        ((32, 37), "32 to 37 MHz"),
        ((0, 0, 0), "\u2013"),
    ],
)
def test_spans(values: tuple[int, ...], text: str) -> None:
    assert span(values, "MHz") == text


def test_phases() -> None:
    assert (phase_label("start"), phase_label("something_new")) == ("start of the processes", "something new")


def test_mappings_and_shapes() -> None:
    assert (joined({"num_warps": 4, "fusion": True}), joined({})) == ("num_warps 4, fusion yes", "\u2013")
    assert (dimensions(["M", 4]), dimensions([])) == ("M \u00d7 4", "scalar")
