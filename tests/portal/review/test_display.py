from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from portal.review.models import TrailEvent
from portal.review.templatetags.review_display import age, changes


def list_changes(before: Any, after: Any) -> list[tuple[str, str, str]]:  # noqa: ANN401  whatever JSON holds
    event = TrailEvent(before=json.dumps(before), after=json.dumps(after))
    return [(change.name, change.before, change.after) for change in changes(event)]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (None, None, []),
        ({"state": "queued"}, {"state": "cancelled"}, [("state", "queued", "cancelled")]),
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}, [("b", "2", "3")]),
        (None, {"user": "bob", "email": None, "note": ""}, [("user", "", "bob")]),
        ({"url": "https://a.example"}, {"url": None}, [("url", "https://a.example", "")]),
        (
            {"verdict": {"number": 1, "failures": ["PREC_TF32", "CORR_VALUE"]}},
            {"verdict": {"number": 2, "failures": []}, "reason": "why"},
            [("verdict number", "1", "2"), ("reason", "", "why"), ("verdict failures", "PREC_TF32, CORR_VALUE", "")],
        ),
        (None, {"digest": "ab" * 32}, [("digest", "", "abababababab\u2026")]),
    ],
)
def test_an_event_says_what_changed(before: object, after: object, expected: list[tuple[str, str, str]]) -> None:
    assert list_changes(before, after) == expected


@pytest.mark.parametrize(
    ("passed", "words"),
    [
        (timedelta(0), "< 1 min"),
        (timedelta(minutes=3), "3 min"),
        (timedelta(hours=2.5), "2 h"),
        (timedelta(days=9), "9 d"),
    ],
)
def test_an_age_is_in_its_largest_unit(passed: timedelta, words: str) -> None:
    assert age(timezone.now() - passed) == words


def test_no_moment_has_no_age() -> None:
    assert age(None) == "\u2013"
