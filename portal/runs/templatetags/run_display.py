"""How figures, states and gates are written on a page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import template

from portal.runs.labels import (
    GATE_EXPLANATIONS,
    GATE_LABELS,
    NO_TARGET,
    NOT_TIMED,
    OUTCOME_EXPLANATIONS,
    OUTCOME_LABELS,
    PHASE_LABELS,
)
from portal.runs.models import Run
from portal.runs.states import State
from verifier.verdict import Check, DistributionRecord, Figure, Gate, Outcome

register = template.Library()

_TONES = {"passed": "good", "failed": "bad", "started": "busy"}
# Floats in this range are written as grouped whole numbers.
_GROUPED, _HUGE = 1e4, 1e12


@register.filter
def figure(value: Figure) -> str:
    """Write an observed or allowed figure: yes or no, grouped whole numbers, four significant digits."""
    match value:
        case None:
            return "\u2013"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:,.0f}" if _GROUPED <= abs(value) < _HUGE else f"{value:.4g}"
    return str(value)


@register.filter
def milliseconds(value: float | None) -> str:
    """Write a time in milliseconds with four significant digits, so that equal precision looks equal."""
    if value is None or abs(value) >= _GROUPED:
        return figure(value)
    return f"{value:#.4g}".rstrip(".")


@register.filter
def observed(check: Check) -> str:
    """Write what a check saw, with its unit."""
    return figure(check.observed) if check.observed is None else f"{figure(check.observed)} {check.unit}".strip()


@register.filter
def allowed(check: Check) -> str:
    """Write what a check allows, with its unit and whether that is a bound from below or above."""
    if check.allowed is None:
        return figure(None)
    return " ".join(word for word in (check.bound, figure(check.allowed), check.unit) if word)


@register.filter
def percentage(share: float | None) -> str:
    """Write a share between 0 and 1 in percent."""
    return "\u2013" if share is None else f"{100 * share:.1f} %"


@register.filter
def speedup(value: float | None) -> str:
    """Write a speedup, such as 1.70x."""
    return "\u2013" if value is None else f"{value:.2f}x"


@register.filter
def span(values: Sequence[float], unit: str) -> str:
    """Write lowest and highest readings, or lowest, median and highest ones, with their unit."""
    if not any(values):
        return figure(None)
    lowest, *middle, highest = map(figure, values)
    if lowest == highest:
        return f"{lowest} {unit}"
    median = f", median {middle[0]}" if middle else ""
    return f"{lowest} to {highest} {unit}{median}"


@register.filter
def phase_label(phase: str) -> str:
    """Return the words for a part of a verification."""
    return PHASE_LABELS.get(phase, phase.replace("_", " "))


@register.filter
def outcome_label(outcome: str) -> str:
    """Return the words for an outcome."""
    return OUTCOME_LABELS[Outcome(outcome)]


@register.filter
def outcome_explanation(outcome: str) -> str:
    """Return one sentence on what an outcome means."""
    return OUTCOME_EXPLANATIONS[Outcome(outcome)]


@register.filter
def gate_explanation(gate: str) -> str:
    """Return what a gate asks for."""
    return GATE_EXPLANATIONS[Gate(gate)]


@register.filter
def line_of(name: str, lines: dict[str, int]) -> int | None:
    """Return the line of the source on which the kernel `name` begins, or None when it is not known."""
    return lines.get(name)


@register.inclusion_tag("partials/badge.html")
def gate_badge(status: str) -> dict[str, str]:
    """Show how one gate stands."""
    return {"label": GATE_LABELS[status], "tone": _TONES.get(status, "")}


@register.inclusion_tag("partials/badge.html")
def check_badge(check: Check | DistributionRecord) -> dict[str, str]:
    """Show what became of one check; a recorded figure decides nothing."""
    if check.passed is None:
        return {"label": "recorded", "tone": ""}
    return {"label": "passed", "tone": "good"} if check.passed else {"label": "failed", "tone": "bad"}


@register.inclusion_tag("partials/badge.html")
def run_badge(run: Run) -> dict[str, str]:
    """Show the outcome of a run, or its state while it has none."""
    if run.verdict:
        outcome = Outcome(run.verdict.outcome)
        accepted = NO_TARGET if run.environment.timed else NOT_TIMED
        label = accepted if outcome is Outcome.ACCEPTED else OUTCOME_LABELS[outcome]
        return {"label": label, "tone": "bad" if outcome is Outcome.REJECTED else "good"}
    tone = "" if run.state in (State.QUEUED, State.CANCELLED) else "bad" if run.state == State.CRASHED else "busy"
    return {"label": run.get_state_display(), "tone": tone}


@register.filter
def joined(values: dict[str, Any]) -> str:
    """Write a mapping on one line."""
    return ", ".join(f"{key} {figure(value)}" for key, value in values.items()) or "\u2013"


@register.filter
def dimensions(shape: list[Any]) -> str:
    """Write a shape or a grid."""
    return " \u00d7 ".join(str(size) for size in shape) or "scalar"
