"""What a run page shows of a run: its way so far, its gates, its evidence."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from operator import itemgetter

from django.contrib.auth.models import AnonymousUser
from django.utils import timezone

from portal.accounts.models import User
from portal.ops.models import Worker
from portal.runs.models import Attempt, Run
from portal.runs.models import Verdict as VerdictRow
from portal.runs.speed import Speed, build_speed
from portal.runs.states import State
from verifier.verdict import Check, Gate, Verdict

_FUNCTION = re.compile(r"def\s+(\w+)\s*\(", re.ASCII)


@dataclass(frozen=True)
class Step:
    """One entry of the timeline."""

    label: str
    at: datetime | None
    detail: str = ""
    current: bool = False


@dataclass(frozen=True)
class GateProgress:
    """How far one gate is: waiting, started, or a gate status."""

    gate: Gate
    status: str
    detail: str = ""


@dataclass(frozen=True)
class Report:
    """Everything about a run that changes while it is watched."""

    run: Run
    steps: list[Step]
    gates: list[GateProgress]
    verdict: Verdict | None
    ahead: int
    served: bool
    kernel_lines: dict[str, int]

    @property
    def speed(self) -> Speed | None:
        """What was measured, when the verdict holds it."""
        return build_speed(self.verdict) if self.verdict else None

    @property
    def elapsed_seconds(self) -> int:
        """How long a worker has been at the run, or how long it has waited for one."""
        since = self.run.started_at if self.run.is_held else self.run.queued_at
        return max(0, int((timezone.now() - (since or self.run.queued_at)).total_seconds()))

    @property
    def deciding(self) -> list[tuple[Gate, Check]]:
        """The failed checks that gave the primary failure, with their gates; all failed ones when none names it."""
        if self.verdict is None:
            return []
        failed = [(gate.gate, check) for gate in self.verdict.gates for check in gate.checks if check.passed is False]
        primary = [(gate, check) for gate, check in failed if check.code == self.verdict.primary_failure]
        return primary or failed

    @property
    def announcement(self) -> str:
        """One sentence on where the run is, for a screen reader."""
        if self.verdict and self.run.is_terminal:
            code = self.verdict.primary_failure
            return f"Finished: {self.verdict.outcome.replace('_', ' ')}{f', {code}' if code else ''}."
        if self.run.state == State.QUEUED:
            return f"Queued, {self.ahead} ahead."
        words = [self.run.get_state_display()]
        if not self.run.is_terminal:
            words += [f"{self.run.current_gate} gate"] if self.run.current_gate else []
            words += [gate.detail for gate in self.gates if gate.detail]
            words += [f"waiting for {awaited}"] if (awaited := find_awaited(self.run)) else []
        return f"{', '.join(words)}."

    @property
    def version(self) -> str:
        """A token that changes whenever the report does."""
        shown = repr((self.steps, self.gates, self.announcement, self.served, self.run.cancel_requested_at))
        return hashlib.sha256(shown.encode()).hexdigest()[:16]


def find_awaited(run: Run) -> str:
    """Return what the verifier of a held `run` waits for because somebody else uses it, or an empty text."""
    return str(run.progress.get("waiting", {}).get("for", "")) if run.is_held else ""


def describe_attempt(attempt: Attempt, awaited: str) -> Step:
    """Return the timeline's entry of one attempt; one in progress may wait for what is `awaited`."""
    current = attempt.outcome == Attempt.Outcome.OPEN
    waiting = f"Waiting for {awaited}, which another verification uses." if awaited else ""
    words = [f"On {attempt.worker}.", waiting] if current else [f"{attempt.get_outcome_display()}.", attempt.reason]
    return Step(f"Attempt {attempt.number}", attempt.started_at, " ".join(filter(None, words)), current)


def describe_verdict(verdict: VerdictRow) -> Step:
    """Return the timeline's entry of one verdict: the first ended the run, the others are revisions."""
    if verdict.number == 1:
        return Step(State.FINISHED.label, verdict.created_at)
    return Step("Verdict revised" if verdict.decided_by_id else "Verified again", verdict.created_at)


def build_steps(run: Run, attempts: Iterable[Attempt], verdicts: Iterable[VerdictRow], ahead: int) -> list[Step]:
    """Return the way of `run` so far, the latest step last."""
    awaited = find_awaited(run)
    happened = [
        *((attempt.started_at, describe_attempt(attempt, awaited)) for attempt in attempts),
        *((verdict.created_at, describe_verdict(verdict)) for verdict in verdicts),
    ]
    # The attempt that a verdict ended began before it.
    steps = [Step("Submitted", run.queued_at), *(step for _, step in sorted(happened, key=itemgetter(0)))]
    if run.state == State.QUEUED:
        waiting = "Next in line." if not ahead else f"{ahead} ahead in the queue."
        steps.append(Step("Waiting for a worker", None, waiting, current=True))
    elif run.is_terminal and run.verdict is None:
        steps.append(Step(run.get_state_display(), run.finished_at))
    return steps


def describe_rounds(run: Run) -> str:
    """Return how many rounds have been timed, in words; more than planned when those did not settle it."""
    timing = run.progress.get("timing")
    if not timing:
        return ""
    done, planned = timing["round"], timing["of"]
    return f"round {done} of {planned} timed" if done <= planned else f"round {done} timed, {planned} did not settle it"


def build_gates(run: Run, verdict: Verdict | None) -> list[GateProgress]:
    """Return every gate with its status, from the verdict or from what the worker said last."""
    if verdict:
        return [GateProgress(result.gate, result.status) for result in verdict.gates]
    said = {gate: run.progress.get(gate, {}).get("state", "waiting") for gate in Gate}
    if run.is_terminal:
        said = {gate: "skipped" if state in ("waiting", "started") else state for gate, state in said.items()}
    rounds = {Gate.PERFORMANCE: describe_rounds(run)}
    return [
        GateProgress(gate, state, rounds.get(gate, "") if state == "started" else "") for gate, state in said.items()
    ]


def read_verdict(run: Run, row: VerdictRow, user: User | AnonymousUser) -> Verdict:
    """Return a verdict of `run` as `user` may see it.

    Only reviewers see hidden distributions named. Only who may read the source sees what it printed.
    """
    verdict = row.parse_body()
    if not user.is_staff:
        verdict = mask_hidden_distributions(verdict)
    return verdict if run.source_readable_by(user) else withhold_output(verdict)


def find_kernel_lines(source: str) -> dict[str, int]:
    """Return the line on which each top-level function of `source` begins; of two with one name, the last."""
    lines = enumerate(source.splitlines(), 1)
    return {found[1]: number for number, line in lines if (found := _FUNCTION.match(line))}


def build_report(run: Run, user: User | AnonymousUser) -> Report:
    """Return what `user` may see of `run`."""
    verdict = read_verdict(run, run.verdict, user) if run.verdict else None
    queued = run.state == State.QUEUED
    ahead = Run.objects.ahead_of(run).count() if queued else 0
    served = not queued or Worker.objects.alive().filter(environment_slug=run.environment_id).exists()
    verdicts = run.verdicts.defer("body") if run.verdict else []
    steps = build_steps(run, run.attempts.defer("log_tail"), verdicts, ahead)
    lines = find_kernel_lines(run.source.text) if verdict and run.source_readable_by(user) else {}
    return Report(run, steps, build_gates(run, verdict), verdict, ahead, served, lines)


def _map_texts(value: object, change: Callable[[str], str]) -> object:
    match value:
        case str():
            return change(value)
        case list():
            return [_map_texts(item, change) for item in value]
        case dict():
            return {key: _map_texts(item, change) for key, item in value.items()}
    return value


def mask_hidden_distributions(verdict: Verdict) -> Verdict:
    """Return `verdict` with the names of hidden distributions replaced, so that nobody can aim at them."""
    hidden = dict.fromkeys(record.distribution for record in verdict.evidence.distributions if not record.visible)
    if not hidden:
        return verdict
    aliases = {name: f"hidden-{number}" for number, name in enumerate(hidden, 1)}
    pattern = re.compile(rf"(?<![\w-])({'|'.join(map(re.escape, hidden))})(?![\w-])")

    def change(text: str) -> str:
        return pattern.sub(lambda match: aliases[match[0]], text)

    body = verdict.model_dump(mode="json")
    body["gates"] = _map_texts(body["gates"], change)
    body["evidence"] |= {key: _map_texts(body["evidence"][key], change) for key in ("distributions", "events", "error")}
    return Verdict.model_validate(body)


def withhold_output(verdict: Verdict) -> Verdict:
    """Return `verdict` without what the submission printed and the lines that its traceback quotes."""
    evidence = verdict.evidence.model_copy(update={"traceback": "", "output_tail": ""})
    return verdict.model_copy(update={"evidence": evidence})
