"""How review is shown on the page of a run, and how old things are."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django import template
from django.utils import timezone

from portal.review.forms import AppealForm, ReplyForm
from portal.review.models import TrailEvent
from portal.review.permissions import may_appeal, may_review
from portal.runs.models import Run

register = template.Library()

_DIGEST = re.compile("[0-9a-f]{64}")
_UNITS = ((timedelta(days=1), "d"), (timedelta(hours=1), "h"), (timedelta(minutes=1), "min"))


@register.filter
def age(moment: datetime | None) -> str:
    """Write how long ago `moment` was, in its largest unit."""
    if moment is None:
        return "\u2013"
    passed = timezone.now() - moment
    for unit, name in _UNITS:
        if passed >= unit:
            return f"{passed // unit} {name}"
    return "< 1 min"


@dataclass(frozen=True)
class Change:
    """One value that an event names: what it was, where it is known, and what it is."""

    name: str
    before: str
    after: str


def _flatten(values: Any, name: str = "") -> dict[str, Any]:  # noqa: ANN401  whatever JSON holds
    if not isinstance(values, dict):
        return {name: values}
    parts = [_flatten(value, f"{name} {key}".strip()) for key, value in values.items()]
    return {key: value for part in parts for key, value in part.items() if value not in (None, "", [])}


def _write(value: Any) -> str:  # noqa: ANN401  as above
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return f"{text[:12]}\u2026" if _DIGEST.fullmatch(text) else text


@register.filter
def changes(event: TrailEvent) -> list[Change]:
    """Return what an event says that changed, or is so since then, each value once; digests are shortened."""
    before, after = _flatten(event.before_values), _flatten(event.after_values)
    return [
        Change(name, _write(before[name]) if name in before else "", _write(after[name]) if name in after else "")
        for name in dict.fromkeys([*after, *before])
        if before.get(name) != after.get(name)
    ]


@register.inclusion_tag("review/_panel.html", takes_context=True)
def review_panel(context: dict[str, Any], run: Run) -> dict[str, Any]:
    """Show how the verdict of a run was revised, and to its team and reviewers what was said about it."""
    user = context["request"].user
    shared, reviews = run.is_shared_with(user), may_review(user)
    insider = shared or reviews
    revised = run.verdict is not None and run.verdict.number > 1
    return {
        "run": run,
        "request": context["request"],
        "csrf_token": context.get("csrf_token"),
        "shared": shared,
        "reviews": reviews,
        "revisions": run.verdicts.select_related("decided_by").defer("body") if revised else [],
        "appeals": run.appeals.select_related("decision", "verdict").defer("verdict__body") if insider else [],
        "decisions": run.decisions.select_related("reply") if insider else [],
        "appeal_form": AppealForm(auto_id="appeal_%s") if may_appeal(user, run) else None,
        "reply_form": ReplyForm(auto_id="reply_%s"),
    }
