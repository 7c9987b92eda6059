"""The reward of a solution as one number, for training loops: `reward(task, solution)`.

What a verdict says in words and evidence stands here in plain numbers: the schema of a `reward.json` of Harbor's, which
takes no flags, texts or nothing. The formula itself is `verifier.reward`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from verifier.bundle import BundleError, read_file
from verifier.certificate import load_certificate
from verifier.environment import EnvironmentSpecification, load_environment
from verifier.reward import compute_capture, compute_reward, reward_code
from verifier.task import Task, load_task
from verifier.verdict import FailureCode, Outcome, Verdict

# What every accepted solution gets, however slow: the reward where nothing is timed, and so no speed is known.
ACCEPTED_AT_LEAST = 0.10
BEYOND_TARGET = 1.05
NO_ARTIFACT, INTEGRITY, UNLOADABLE, STRUCTURAL, INCORRECT, ACCEPTED, PASSED, BEYOND = range(8)
_STAGES = {0.0: INTEGRITY, 0.02: UNLOADABLE, 0.04: STRUCTURAL, 0.06: INCORRECT}
_NO_ARTIFACT = (FailureCode.ART_MISSING_FILE, FailureCode.ART_BAD_BUNDLE)


class NoReward(RuntimeError):
    """The installation failed and not the solution: there is no reward, and 0 would be wrong. Try again later."""


def find_stage(failures: Sequence[FailureCode], speedup: float | None, target: float | None) -> int:
    """Return how far a run came, from 0 to 7.

    0 no artifact, 1 a breach of integrity, 2 unloadable, 3 structural, 4 incorrect, 5 accepted, 6 passed, 7 passed and
    at least 5 % beyond the target.
    """
    gates = [code for code in failures if not code.startswith("PERF_") or code is FailureCode.PERF_BELOW_FLOOR]
    if gates:
        worst = min(gates, key=reward_code)
        return NO_ARTIFACT if worst in _NO_ARTIFACT else _STAGES[reward_code(worst)]
    if speedup is None or target is None or failures or speedup < target:
        return ACCEPTED
    return BEYOND if speedup >= BEYOND_TARGET * target else PASSED


def list_figures(
    failures: Sequence[FailureCode], speedup: float | None, target: float | None, *, timed: bool
) -> dict[str, float]:
    """Return reward, capture, flags as 0 and 1, speedup and target (0 where there is none), and the stage.

    A run that is accepted where nothing is timed gets what every accepted run gets at least. Raises NoReward for an
    infrastructure failure, and where a timed run has no target to be measured against.
    """
    stage = find_stage(failures, speedup, target)
    reward = compute_reward(failures, speedup, target)
    if reward is None:
        if stage != ACCEPTED or timed:
            cause = (
                f"the verification failed: {failures[0]}" if failures else "nothing was timed, or there is no target"
            )
            raise NoReward(f"no reward: {cause}")
        reward = ACCEPTED_AT_LEAST
    accepted = stage >= ACCEPTED
    counted = speedup if accepted and speedup else 0.0
    capture = compute_capture(counted, target) if counted and target else 0.0
    return {
        "reward": round(reward, 6),
        "capture": round(capture, 6),
        "accepted": float(accepted),
        "passed": float(stage >= PASSED),
        "timed": float(timed),
        "speedup": counted,
        "target": target or 0.0,
        "stage": float(stage),
    }


def rate(
    task: Task, data: bytes, environment: EnvironmentSpecification, target: float | None = None
) -> tuple[dict[str, float], Verdict]:
    """Verify a solution and return its figures with the verdict. Raises NoReward and SandboxUnavailable.

    `target` counts where the task has no certificate of its own in the environment.
    """
    # Only here: whoever reads figures of a verdict needs no torch.
    from verifier.judge import verify  # noqa: PLC0415

    verdict = verify(task, data, environment)
    if verdict.outcome is Outcome.INFRASTRUCTURE:
        raise NoReward(f"no reward: {verdict.evidence.error or verdict.primary_failure}")
    certificate = load_certificate(task, environment.slug)
    known = (certificate.target if certificate else None) or target
    return list_figures(verdict.failures, verdict.measured_speedup, known, timed=environment.timed), verdict


def reward(task: str, solution: str | Path, environment: str = "cpu-interpreter") -> float:
    """Return the reward of a solution, from 0 to 1.

    `task` is an id, a slug or a folder; `solution` the text of a file, or the path of one. A file that is missing or
    cannot be taken gets 0. Raises KeyError for an unknown task or environment, and NoReward or SandboxUnavailable when
    this host failed: a training loop must try such a solution again and never score it.
    """
    found, specification = load_task(task), load_environment(environment)
    try:
        data = read_file(solution) if isinstance(solution, Path) else solution.encode()
    except (BundleError, UnicodeEncodeError):
        return 0.0
    return rate(found, data, specification)[0]["reward"]
