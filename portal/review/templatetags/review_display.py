"""How review is shown on the page of a run, and how old things are."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django import template
from django.utils import timezone

from portal.review.forms import AppealForm, ReplyForm
from portal.review.permissions import may_appeal, may_review
from portal.runs.models import Run

register = template.Library()

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
    return "now"


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
