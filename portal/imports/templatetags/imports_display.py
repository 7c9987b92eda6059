"""What another system recorded of the agent, on the page of the run."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django import template

from portal.imports.models import ImportedTrial
from portal.imports.trajectory import build_timeline
from portal.runs.models import Run

register = template.Library()


@register.inclusion_tag("imports/_trial.html")
def trial_panel(run: Run, readable: bool) -> dict[str, Any]:  # noqa: FBT001  templates name no arguments
    """Show how the agent worked; its steps, which hold the solution, only to those who may read that."""
    trial = ImportedTrial.objects.filter(run=run).first()
    timeline = build_timeline(trial.trajectory) if trial and readable else None
    return {"trial": trial, "timeline": timeline, "hidden": bool(trial and trial.trajectory and not readable)}


@register.filter
def since(moment: datetime | None, start: datetime | None) -> str:
    """Write how long after `start` something was, in minutes and seconds."""
    if moment is None or start is None or moment < start:
        return "\u2013"
    seconds = int((moment - start).total_seconds())
    return f"{seconds // 60}:{seconds % 60:02}"
