"""The verdicts of a run, one after another: what the verifier found, and what corrected it since."""

from __future__ import annotations

import json
from typing import Any, cast

from django.core.exceptions import ValidationError
from django.db import transaction
from pydantic import JsonValue

from portal.accounts.models import User
from portal.runs.models import Attempt, GateResult, Run, Verdict
from portal.runs.states import State
from portal.standings.services import refresh_standing
from verifier.verdict import Verdict as VerdictBody
from verifier.verdict import compute_digest

_FIGURES = ("speedup", "measured_speedup", "target", "reward", "capture")


def replace_nul(text: str) -> str:
    """Return `text` with every NUL character replaced: PostgreSQL keeps none."""
    return text.replace("\0", "\ufffd")


def _replace_all(value: JsonValue) -> JsonValue:
    match value:
        case str():
            return replace_nul(value)
        case list():
            return [_replace_all(item) for item in value]
        case dict():
            return {replace_nul(key): _replace_all(item) for key, item in value.items()}
    return value


def keep_verdict(
    *, run: Run, attempt: Attempt, verdict: VerdictBody, reason: str = "", decided_by: User | None = None
) -> Verdict:
    """Write a verdict of a locked run after those that it has. It stands only when the run points to it."""
    body = cast(dict[str, Any], _replace_all(json.loads(verdict.to_json())))
    row = Verdict.objects.create(
        run=run,
        number=run.verdict.number + 1 if run.verdict else 1,
        attempt=attempt,
        reason=reason,
        decided_by=decided_by,
        outcome=verdict.outcome,
        primary_failure=verdict.primary_failure or "",
        failures=body["failures"],
        verifier_version=verdict.verifier_version,
        body=body,
        digest=compute_digest(verdict),
        **{name: body[name] for name in _FIGURES},
    )
    GateResult.objects.bulk_create(GateResult(verdict=row, **result) for result in body["gates"])
    return row


@transaction.atomic
def revise_verdict(*, run: Run, verdict: VerdictBody, reason: str, decided_by: User) -> Verdict:
    """Let a decided verdict stand in place of the one that the run has; the standings follow at once.

    Raises ValidationError when the run is being verified, or has no verdict.
    """
    locked = Run.objects.select_for_update(of=("self",)).select_related("verdict__attempt").get(pk=run.pk)
    if locked.verdict is None or locked.state != State.FINISHED:
        raise ValidationError("The run is being verified. Decide when its verdict is in.")
    row = keep_verdict(
        run=locked, attempt=locked.verdict.attempt, verdict=verdict, reason=reason, decided_by=decided_by
    )
    Run.objects.filter(pk=run.pk).update(verdict=row)
    refresh_standing(environment_id=run.environment_id, system_id=run.system_id, task_id=run.task_id)
    return row


def summarise_verdict(verdict: Verdict | None) -> dict[str, Any] | None:
    """Return what the trail keeps of a verdict."""
    if verdict is None:
        return None
    names = ("number", "outcome", "failures", "speedup", "measured_speedup", "reward", "verifier_version", "digest")
    return {name: getattr(verdict, name) for name in names}
