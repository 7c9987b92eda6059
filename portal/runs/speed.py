"""What the timing of a verdict says, as a run page shows it. Pure functions of the verdict."""

from __future__ import annotations

from dataclasses import dataclass

from portal.runs.labels import SIDE_LABELS
from verifier.verdict import FailureCode, SideRecord, TimingRecord, Verdict


@dataclass(frozen=True)
class Side:
    """The timed calls of one side, and the work on the GPU in one profiled call, in milliseconds."""

    label: str
    is_baseline: bool
    record: SideRecord
    profiled: float | None


@dataclass(frozen=True)
class Speed:
    """A measured speedup: counted, or what the stopwatch said of a run that was rejected for `reason`."""

    timing: TimingRecord
    speedup: float
    counted: bool
    reason: FailureCode | None
    sides: list[Side]

    @property
    def baseline_label(self) -> str:
        """What the submission is compared with: the faster of the two."""
        return SIDE_LABELS[self.timing.baseline]

    @property
    def calls(self) -> int:
        """How many calls of the submission were timed."""
        return len(self.timing.sides["candidate"].samples)

    @property
    def floor_ratio(self) -> float | None:
        """How many times the floor the submission's mean is."""
        floor = self.timing.floor_milliseconds
        return self.timing.sides["candidate"].mean / floor if floor else None

    @property
    def clock_difference(self) -> float:
        """How far the two clocks are apart, in milliseconds."""
        return abs(self.timing.clocks.outside - self.timing.clocks.inside)


def build_sides(verdict: Verdict, timing: TimingRecord) -> list[Side]:
    """Return every side, the submission last."""
    profiled = {str(name): value for name, value in timing.profiled.items()}
    if verdict.evidence.activities:
        profiled["candidate"] = sum(activity.milliseconds for activity in verdict.evidence.activities)
    return [
        Side(SIDE_LABELS[name], name == timing.baseline, timing.sides[name], profiled.get(name))
        for name in sorted(timing.sides, key=list(SIDE_LABELS).index)
    ]


def build_speed(verdict: Verdict) -> Speed | None:
    """Return the speed of a timed `verdict`, or None when nothing was timed."""
    timing = verdict.evidence.timing
    if timing is None:
        return None
    counted = verdict.speedup is not None
    reason = None if counted else verdict.primary_failure
    return Speed(timing, timing.speedup, counted, reason, build_sides(verdict, timing))
