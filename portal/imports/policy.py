"""What becomes of a trial: a run, another try, or nothing. Pure.

An agent that ran out of time or budget is judged by what it left. What broke around the agent is run again and never
scored 0, since that would blame the agent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from portal.imports.jobs import Trial


class Fate(StrEnum):
    SCORE = "score"
    RUN_AGAIN = "run again"
    REFUSE = "refuse"


@dataclass(frozen=True)
class Decision:
    fate: Fate
    reason: str = ""
    # A run that counts, and at which somebody should look.
    flagged: bool = False


@dataclass(frozen=True)
class Known:
    """A task of the package: its id here, Harbor's digest, and why it does not count, if so."""

    task: str
    digest: str
    problem: str = ""


# The agent's own doing.
ENDED_BY_AGENT = frozenset(
    {
        "AgentTimeoutError",
        "ContextWindowExceededError",
        "OutputTokenExceededError",
        "ContextLengthExceededError",
        "OutputLengthExceededError",
        "AgentSafetyRefusalError",
        "ContentPolicyViolationError",
    }
)
FLAGGED = "NonZeroAgentExitCodeError"


def list_overrides(trial: Trial) -> list[str]:
    """Return the settings by which the trial had other means than the task gives."""
    config = trial.result.config
    factors = {
        "timeout_multiplier": config.timeout_multiplier,
        "agent_timeout_multiplier": config.agent_timeout_multiplier,
    }
    found = [f"{name} {value:g}" for name, value in factors.items() if value not in (None, 1.0)]
    given = {**config.agent.model_dump(), **config.environment.model_dump()}
    return found + [f"{name} {value:g}" for name, value in given.items() if value is not None]


def list_refusals(trial: Trial, known: Mapping[str, Known]) -> Iterator[str]:
    """Yield why a trial is not comparable with the others."""
    result = trial.result
    task = known.get(result.task_name)
    if task is None:
        yield f"the package has no task {result.task_name}"
        return
    if task.problem:
        yield task.problem
    if trial.digest != task.digest:
        yield "its task is not the one of the package: the digests differ"
    if result.config.source_trial is not None:
        yield "a regrade: the trial that it repeats counts, and is verified here anyway"
    if result.verifier_environment_mode != "separate":
        yield f"its verifier ran in the mode {result.verifier_environment_mode or 'unknown'}, and not apart"
    if overrides := list_overrides(trial):
        yield f"it had other means than the task gives: {', '.join(overrides)}"


def decide(trial: Trial, known: Mapping[str, Known]) -> Decision:
    """Return what becomes of a trial. `known` gives the tasks of the package by Harbor's names."""
    if refusal := next(list_refusals(trial, known), ""):
        return Decision(Fate.REFUSE, refusal)
    result = trial.result
    kind = result.exception_info.exception_type if result.exception_info else ""
    measured = bool(result.verifier_result and result.verifier_result.rewards)
    if kind and kind not in ENDED_BY_AGENT and kind != FLAGGED:
        return Decision(Fate.RUN_AGAIN, f"{kind} is no doing of the agent")
    if not measured:
        return Decision(Fate.RUN_AGAIN, f"{kind or 'no exception'}, and no measurement")
    return Decision(Fate.SCORE, kind, flagged=kind == FLAGGED)
