"""What the verifier asks and allows, in its own figures, so that the page cannot drift from what is judged."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

from portal.catalog.models import Environment
from portal.runs.uploads import SOURCE_CAP
from verifier import limits, timing
from verifier.limits import TimeLimits
from verifier.reward import compute_reward, reward_code
from verifier.verdict import FailureCode, Gate, rank_failures

LIMIT_LABELS = {
    "load": "Import of the file",
    "first_call": "First call, in which kernels compile and tune",
    "call": "Each later call",
    "whole": "Everything together",
}
# Where each group of failure codes is found, by the beginning of its name.
GATE_PREFIXES = {
    Gate.INTAKE: ("ART_",),
    Gate.STRUCTURAL: ("STRUCT_",),
    Gate.CORRECTNESS: ("CORR_", "STALE_"),
    Gate.POLICY: ("PREC_", "GRAPH_", "BACKEND_", "TAMPER_"),
    Gate.PERFORMANCE: ("PERF_", "TIMING_"),
}


@dataclass(frozen=True)
class Limit:
    """Seconds that one part of a verification may take, without and with a GPU."""

    label: str
    untimed: float
    timed: float


@dataclass(frozen=True)
class Fact:
    """One figure of the contract in words."""

    label: str
    value: str


def write_share(share: float) -> str:
    """Return a share in whole percent."""
    return f"{100 * share:.0f} %"


def list_limits() -> list[Limit]:
    """Return every time limit of a submission."""
    untimed = TimeLimits()
    return [
        Limit(LIMIT_LABELS[field.name], getattr(untimed, field.name), getattr(limits.GPU_LIMITS, field.name))
        for field in fields(TimeLimits)
    ]


def list_timing() -> list[Fact]:
    """Return how speed is measured."""
    return [
        Fact("Rounds in which the sides alternate", f"{limits.ROUNDS}"),
        Fact("Confidence of the interval of a speedup", write_share(timing.CONFIDENCE)),
        Fact(
            "A session is repeated when the speedup is this near to the target",
            f"within {write_share(timing.NEAR_TARGET)}",
        ),
        Fact("A baseline that varies by more than this is measured again", write_share(timing.MAXIMUM_VARIATION)),
        Fact(
            "The two clocks may differ by",
            f"{write_share(timing.CLOCK_SHARE)}, plus {timing.CLOCK_MILLISECONDS:g} ms a window of queued calls",
        ),
    ]


def list_codes() -> list[tuple[Gate, list[FailureCode]]]:
    """Return the failure codes that each gate can give, in the order of their precedence."""
    ranked = rank_failures(list(FailureCode))
    return [(gate, [code for code in ranked if code.startswith(prefixes)]) for gate, prefixes in GATE_PREFIXES.items()]


def list_rewards() -> list[tuple[float, list[FailureCode]]]:
    """Return the training reward of each failure before performance, the least first."""
    rewards: dict[float, list[FailureCode]] = {}
    for code in rank_failures(list(FailureCode)):
        if not code.is_infrastructure and not code.startswith("PERF_"):
            rewards.setdefault(reward_code(code), []).append(code)
    return sorted(rewards.items())


def list_reward_bands() -> list[Fact]:
    """Return between which rewards an accepted run lies, from the formula itself at a target of 2x."""
    missed = [FailureCode.PERF_BELOW_TARGET]
    bands = {
        "Accepted, slower than the baseline": (
            compute_reward(missed, 1e-9, 2.0),
            compute_reward(missed, 1 - 1e-9, 2.0),
        ),
        "Accepted, below the target, by the share of its headroom": (
            compute_reward(missed, 1.0, 2.0),
            compute_reward(missed, 2.0, 2.0),
        ),
        "At or above the target": (compute_reward([], 2.0, 2.0), compute_reward([], 1e9, 2.0)),
    }
    return [Fact(label, f"{low:.2f} to {high:.2f}") for label, (low, high) in bands.items()]


def _write(value: object) -> str:
    return f"{value:,}" if isinstance(value, int | float) else str(value)


def describe_environments(environments: Iterable[Environment]) -> list[tuple[Environment, list[Fact]]]:
    """Return what is pinned and assumed in each environment."""
    found = []
    for environment in environments:
        facts = [Fact(name, str(version)) for name, version in environment.versions.items()]
        device = environment.device or {}
        facts += [Fact(name.replace("_", " "), _write(value)) for name, value in device.items()]
        found.append((environment, facts))
    return found


def describe_file() -> str:
    """Return how large a submission may be."""
    return f"{SOURCE_CAP // 1024} KiB"
