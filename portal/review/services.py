"""What reviewers and teams do about verdicts: take a case, decide, appeal, reply. All of it enters the trail."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from django.core.exceptions import PermissionDenied, ValidationError
from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now

from portal.accounts.models import User
from portal.notifications.kinds import Kind
from portal.notifications.services import notify
from portal.review.models import Appeal, Case, Decision, Reply
from portal.review.permissions import may_appeal, may_decide
from portal.review.reverification import queue_again
from portal.review.rulings import REJECTING, rule_accepted, rule_rejected
from portal.review.trail import record_event
from portal.runs.models import Run, Verdict
from portal.runs.revisions import revise_verdict, summarise_verdict
from verifier.verdict import FailureCode
from verifier.verdict import Verdict as VerdictBody

# So long a case is held; every decision on it begins the time anew.
HOLD = timedelta(minutes=60)
SHORTEST_REASON, LONGEST_REASON = 20, 4_000


@dataclass(frozen=True)
class Ruling:
    """What an overturned verdict becomes: accepted, or rejected for `code`."""

    code: FailureCode | None = None

    def apply(self, verdict: VerdictBody, *, timed: bool) -> VerdictBody:
        """Return what `verdict` becomes. Raises ValueError."""
        return rule_rejected(verdict, self.code) if self.code else rule_accepted(verdict, timed=timed)


def check_reason(text: str) -> str:
    """Return a written reason without what surrounds it. Raises ValidationError on the field `reason`."""
    reason = text.replace("\0", "").strip()
    if not SHORTEST_REASON <= len(reason) <= LONGEST_REASON:
        wanted = f"Write {SHORTEST_REASON} to {LONGEST_REASON:,} characters: others will read why."
        raise ValidationError({"reason": wanted})
    return reason


def _check_reviewer(user: User, run: Run) -> None:
    if not may_decide(user, run):
        raise PermissionDenied("Reviewers decide on the runs of other teams, and nobody else does.")


@transaction.atomic
def take_case(*, run: Run, user: User) -> Case:
    """Let `user` hold the case of `run` for an hour. Raises PermissionDenied, and ValidationError when it is held."""
    _check_reviewer(user, run)
    Case.objects.get_or_create(run=run)
    # One statement decides, so that of two who ask at once one gets it.
    free = Q(assignee__isnull=True) | Q(assigned_until__lte=Now()) | Q(assignee=user)
    taken = Case.objects.filter(free, run=run).update(assignee=user, assigned_until=Now() + HOLD)
    case = Case.objects.select_related("assignee").get(run=run)
    if not taken:
        until = f"{case.assigned_until:%H:%M}" if case.assigned_until else ""
        raise ValidationError(f"{case.assignee} has this case until {until} UTC.")
    record_event(actor=user, action="case.take", subject=run)
    return case


@transaction.atomic
def release_case(*, run: Run, user: User) -> None:
    """Give the case of `run` back before its time is up. Nothing happens when somebody else holds it."""
    if Case.objects.filter(run=run, assignee=user).update(assignee=None, assigned_until=None):
        record_event(actor=user, action="case.release", subject=run)


def _hold_case(run: Run, user: User) -> None:
    """Lock the case that `user` must hold, and begin its time anew. Raises ValidationError."""
    if not Case.objects.filter(run=run, assignee=user, assigned_until__gt=Now()).update(assigned_until=Now() + HOLD):
        raise ValidationError("You do not hold this case, or no longer. Take it first.")


def _rule(run: Run, verdict: Verdict, ruling: Ruling) -> VerdictBody:
    """Return what the verdict becomes. Raises ValidationError on the field `ruling`."""
    try:
        body = ruling.apply(verdict.parse_body(), timed=run.environment.timed)
    except ValueError as error:
        raise ValidationError({"ruling": str(error)}) from error
    if (body.outcome, list(body.failures)) == (verdict.outcome, verdict.failures):
        raise ValidationError({"ruling": "That is what the verdict says already. Uphold it instead."})
    return body


@transaction.atomic
def decide(  # noqa: PLR0913  each is named at the call
    *,
    run: Run,
    user: User,
    kind: str,
    reason: str,
    verdict_number: int,
    ruling: Ruling | None = None,
    pattern: str = "",
) -> Decision:
    """Write a reviewer's decision on the verdict that they read, with everything that follows from it.

    Raises PermissionDenied on one's own team's run. Raises ValidationError, by field where there is one, when the
    reason is too short, the case is not held, or the run has another verdict by now.
    """
    _check_reviewer(user, run)
    reason = check_reason(reason)
    if kind not in Decision.Kind.values:
        raise ValidationError({"kind": f"Choose one of: {', '.join(Decision.Kind.values)}."})
    if kind == Decision.Kind.FLAG and not pattern.strip():
        raise ValidationError({"pattern": "Name the pattern, so that other runs with it can be found."})
    if ruling and ruling.code and ruling.code not in REJECTING:
        raise ValidationError({"ruling": f"No run is rejected for {ruling.code}."})
    _hold_case(run, user)
    run = Run.objects.select_for_update(of=("self",)).select_related("verdict", "environment", "team").get(pk=run.pk)
    verdict = run.verdict
    if verdict is None or verdict.number != verdict_number:
        raise ValidationError("The run has another verdict than the one that you read. Read it first.")
    result = None
    if kind == Decision.Kind.OVERTURN:
        body = _rule(run, verdict, ruling or Ruling())
        result = revise_verdict(run=run, verdict=body, reason=reason, decided_by=user)
    if kind == Decision.Kind.REVERIFY and not queue_again(Run.objects.filter(pk=run.pk)):
        raise ValidationError("The run is being verified again already.")
    decision = Decision.objects.create(
        run=run,
        verdict=verdict,
        result=result,
        kind=kind,
        reason=reason,
        pattern=pattern.strip()[:80] if kind == Decision.Kind.FLAG else "",
        decided_by=user,
    )
    if decision.closes:
        run.appeals.open().update(decision=decision)
        Case.objects.filter(run=run).update(assignee=None, assigned_until=None)
    text = f"{decision.get_kind_display()}: {reason}"
    notify(kind=Kind.DECISION, team=run.team, text=text, run=run, actor=user)
    said = {
        "kind": kind,
        "reason": reason,
        "pattern": decision.pattern,
        "verdict": summarise_verdict(result or verdict),
    }
    record_event(
        actor=user, action=f"review.{kind}", subject=run, before={"verdict": summarise_verdict(verdict)}, after=said
    )
    return decision


@transaction.atomic
def open_appeal(*, run: Run, user: User, reason: str) -> Appeal:
    """Object to the verdict that stands, once. Raises PermissionDenied, and ValidationError on the field `reason`."""
    reason = check_reason(reason)
    run = Run.objects.select_for_update(of=("self",)).select_related("verdict", "team").get(pk=run.pk)
    if not may_appeal(user, run) or run.verdict is None:
        raise PermissionDenied("Only the team appeals, once for each verdict, and only while the run does not pass.")
    appeal = Appeal.objects.create(run=run, verdict=run.verdict, reason=reason, opened_by=user)
    notify(kind=Kind.APPEAL, team=run.team, text=f"Appeal: {reason}", run=run, actor=user)
    record_event(actor=user, action="appeal.open", subject=run, after={"reason": reason, "verdict": run.verdict.number})
    return appeal


@transaction.atomic
def reply_to(*, decision: Decision, user: User, text: str) -> Reply:
    """Answer a reviewer's question, once, for the team. Raises PermissionDenied and ValidationError."""
    if decision.kind != Decision.Kind.ASK or not decision.run.is_of_team_of(user):
        raise PermissionDenied("Only the team answers a question about its run.")
    text = text.replace("\0", "").strip()
    if not 1 <= len(text) <= LONGEST_REASON:
        raise ValidationError({"text": f"Write at most {LONGEST_REASON:,} characters, and not nothing."})
    Decision.objects.select_for_update().get(pk=decision.pk)
    if Reply.objects.filter(decision=decision).exists():
        raise ValidationError({"text": "Your team has answered this question already."})
    reply = Reply.objects.create(decision=decision, text=text, written_by=user)
    record_event(actor=user, action="review.reply", subject=decision.run, after={"text": text})
    return reply
