"""Certifies a task: its certified solution is verified in independent sessions, and a target follows by a fixed rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import as_completed
from dataclasses import replace
from datetime import UTC, datetime
from decimal import ROUND_FLOOR, Decimal
from typing import Any, NamedTuple

from verifier import __version__
from verifier.certificate import Certificate, Session, compute_digests, list_changed, load_certificate
from verifier.environment import EnvironmentSpecification
from verifier.judge import Plan, name_task, share_gpu, verify
from verifier.limits import (
    LARGEST_BUDGET_RATIO,
    LEAST_SESSIONS,
    LEAST_SPEEDUP,
    LOWEST_TARGET,
    MOST_SESSIONS,
    ROOM,
    SIGNIFICANT_DIGITS,
    choose_limits,
)
from verifier.task import Task
from verifier.verdict import Outcome, TimingRecord, Verdict

Progress = Callable[[dict[str, Any]], None]
Keep = Callable[[Task, Certificate], object]

UNFINISHED = "another session has to be measured"


def forget(task: Task, certificate: Certificate) -> None:
    """Keep an unfinished certificate nowhere."""


class CertificationError(Exception):
    """The certified solution did not pass its own task, or the host failed: there is nothing to certify.

    `verdict` is what it got, when it got one.
    """

    def __init__(self, message: str, verdict: Verdict | None = None) -> None:
        super().__init__(message)
        self.verdict = verdict


def choose_target(speedup: float) -> float:
    """Return the target that a first session's speedup sets: with room to clear it again, rounded down to three digits."""
    wanted = Decimal(repr(max(speedup / ROOM, LOWEST_TARGET)))
    step = Decimal(1).scaleb(wanted.adjusted() - SIGNIFICANT_DIGITS + 1)
    return float(wanted.quantize(step, rounding=ROUND_FLOOR))


def read_session(verdict: Verdict, timing: TimingRecord) -> Session:
    """Return what a certificate keeps of a verdict."""
    checks = {item.name: item for result in verdict.gates for item in result.checks}
    share = checks["own_share"].observed if "own_share" in checks else None
    ratios = [item.budget_ratio or 0.0 for item in verdict.evidence.distributions]
    reference = [item.reference_ratio or 0.0 for item in verdict.evidence.distributions]
    return Session(
        started_at=verdict.started_at,
        seconds=verdict.seconds,
        eager_ms=round(timing.sides["eager"].mean, 6),
        compiled_ms=round(timing.sides["compiled"].mean, 6),
        certified_ms=round(timing.sides["candidate"].mean, 6),
        baseline=timing.baseline,
        speedup=round(timing.speedup, 4),
        speedup_interval=timing.speedup_interval,
        cv=round(timing.sides["candidate"].variation, 5),
        own_share=share if isinstance(share, float | int) else None,
        budget_ratio=round(max(ratios, default=0.0), 5),
        reference_ratio=round(max(reference, default=0.0), 5),
        peak_clock_mhz=timing.gpu.sm_clock[2],
    )


def measure(
    task: Task,
    environment: EnvironmentSpecification,
    progress: Progress,
    plan: Plan | None = None,
) -> tuple[Session, Verdict]:
    """Verify the certified solution once, in processes of its own. Raises CertificationError."""
    plan = replace(plan or Plan(choose_limits(environment)), use_target=False)
    verdict = verify(task, (task.path / "certified.py").read_bytes(), environment, progress, plan)
    timing = verdict.evidence.timing
    if verdict.outcome not in (Outcome.ACCEPTED, Outcome.BELOW_TARGET) or timing is None:
        failing = [
            f"{item.label} ({item.observed}, allowed {item.allowed})"
            for result in verdict.gates
            for item in result.checks
            if item.passed is False
        ]
        codes = ", ".join(verdict.failures) or verdict.outcome
        raise CertificationError(f"{codes}: {'; '.join(failing[:3]) or verdict.evidence.error}", verdict)
    return read_session(verdict, timing), verdict


class Decision(NamedTuple):
    """The target, or why there is none, and whether another session may still settle it."""

    target: float | None
    reason: str = ""
    open: bool = False


def decide(sessions: Sequence[Session]) -> Decision:
    """Return what two sessions or more decide. Pure.

    The slowest session but the last sets the target, and the last has to clear it.
    """
    worst = max(session.budget_ratio or 0.0 for session in sessions)
    if worst > LARGEST_BUDGET_RATIO:
        return Decision(None, f"the certified solution takes {worst:.2f} of the error budget; a third is allowed")
    speedups = [session.speedup or 0.0 for session in sessions]
    if min(speedups) < LEAST_SPEEDUP:
        slowest = f"{min(speedups):.3f} times as fast as the baseline"
        return Decision(None, f"the certified solution is {slowest}; below {LEAST_SPEEDUP} there is no target")
    target = choose_target(min(speedups[:-1]))
    if speedups[-1] < target:
        reason = f"a session reached {speedups[-1]:.3f}, below the target of {target} that those before it set"
        return Decision(None, reason, open=True)
    return Decision(target)


def certify(  # noqa: PLR0913 - all named at the call
    task: Task,
    environment: EnvironmentSpecification,
    progress: Progress,
    *,
    plan: Plan | None = None,
    earlier: Sequence[Session] = (),
    keep: Keep = forget,
) -> tuple[Certificate, Verdict]:
    """Return a certificate and the last verdict behind it. Raises CertificationError or SandboxUnavailable.

    Two sessions; a third when the second does not clear what the first set. `earlier` are those that a certification
    of the same files had when it was broken off, and `keep` is given an unfinished certificate after each but the last.
    """
    digests = compute_digests(task)
    sessions = list(earlier)
    while True:
        progress({"event": "session", "t": 0.0, "number": len(sessions) + 1})
        session, verdict = measure(task, environment, progress, plan)
        if compute_digests(task) != digests:
            raise CertificationError("files of the task changed during the certification")
        sessions.append(session)
        decision = decide(sessions) if len(sessions) >= LEAST_SESSIONS else Decision(None, UNFINISHED, open=True)
        if len(sessions) >= MOST_SESSIONS:
            decision = decision._replace(open=False)
        certificate = make_certificate(task, environment, decision, sessions, verdict)
        if certificate.finished:
            return certificate, verdict
        keep(task, certificate)


def list_earlier(task: Task, environment: EnvironmentSpecification) -> list[Session]:
    """Return the sessions of a certification of the files as they are that was broken off. Raises TaskError."""
    certificate = load_certificate(task, environment.slug)
    if certificate is None or certificate.finished or not is_current(task, certificate):
        return []
    return certificate.sessions


def certify_all(  # noqa: PLR0913 - all named at the call
    tasks: Sequence[Task],
    environment: EnvironmentSpecification,
    progress: Progress,
    *,
    jobs: int,
    resume: bool = False,
    keep: Keep = forget,
) -> Iterator[tuple[Task, tuple[Certificate, Verdict] | CertificationError]]:
    """Certify tasks, some at a time, and yield each with its certificate or what failed. Timed calls run alone.

    With `resume` sessions of a certification that was broken off count. Raises SandboxUnavailable, TaskError and
    InfrastructureFault.
    """
    earlier = {task.id: list_earlier(task, environment) if resume else [] for task in tasks}
    with share_gpu(environment, jobs) as (pool, turns):
        plan = Plan(choose_limits(environment), turns=turns, sharing=jobs)
        futures = {
            pool.submit(
                certify,
                task,
                environment,
                name_task(progress, task),
                plan=plan,
                earlier=earlier[task.id],
                keep=keep,
            ): task
            for task in tasks
        }
        for future in as_completed(futures):
            try:
                yield futures[future], future.result()
            except CertificationError as error:
                yield futures[future], error


def make_certificate(
    task: Task,
    environment: EnvironmentSpecification,
    decision: Decision,
    sessions: list[Session],
    verdict: Verdict,
) -> Certificate:
    """Return the certificate that the last session's verdict completes."""
    timing = verdict.evidence.timing
    target = decision.target
    return Certificate(
        schema_id="kernelquest.certificate/1",
        task=task.id,
        environment=environment.slug,
        certified=target is not None,
        finished=not decision.open,
        reason=decision.reason,
        target=target,
        margin=None if target is None else round((sessions[-1].speedup or 0.0) / target - 1.0, 4),
        floor_ms=timing.floor_milliseconds if timing else None,
        sessions=list(sessions),
        date=datetime.now(UTC).date().isoformat(),
        verifier_version=verdict.verifier_version,
        versions=verdict.versions,
        gpu={"name": timing.gpu.name, "driver": timing.gpu.driver} if timing else {},
        digests=compute_digests(task),
    )


def is_certified(task: Task, environment: EnvironmentSpecification) -> bool:
    """Return whether a task has a finished certificate of this verifier for the files as they are. Raises TaskError."""
    certificate = load_certificate(task, environment.slug)
    return certificate is not None and certificate.finished and is_current(task, certificate)


def is_current(task: Task, certificate: Certificate) -> bool:
    """Return whether a certificate is of this verifier and of the files as they are."""
    current = certificate.verifier_version == __version__ and bool(certificate.digests)
    return current and not list_changed(task, certificate)
