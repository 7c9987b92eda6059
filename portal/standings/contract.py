"""What the verifier asks and allows, in its own figures, so that the page cannot drift from what is judged."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

from portal.catalog.models import Environment
from portal.runs.uploads import SOURCE_CAP
from verifier import floor, limits, timing
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


def list_structure() -> list[Fact]:
    """Return when own kernels count as having done the work."""
    free, share = limits.FREE_TRANSFER, write_share(limits.MAXIMUM_FREE_READBACK)
    return [
        Fact(
            "Of the output, what changes when all own kernels write noise",
            f"at least {write_share(limits.MINIMUM_ABLATION_SHARE)}",
        ),
        Fact(
            "What the host may read back in a call",
            f"{write_share(limits.MAXIMUM_READBACK)} of the inputs, or {free} elements that are at most {share} of them",
        ),
        Fact(
            "What the host may upload in a call",
            f"{write_share(limits.MAXIMUM_UPLOAD)} of the output, or {free} elements",
        ),
        Fact(
            "How much longer a call may take under the profiler than under the clock",
            f"{limits.PROFILED_SLOWDOWN:g} times",
        ),
        Fact("GPU activities that a verdict names", f"at most {limits.MAXIMUM_ACTIVITIES}"),
    ]


def list_correctness() -> list[Fact]:
    """Return how many calls are made, and what counts as a change."""
    return [
        Fact("Calls on the same address before the values behind it change", f"{limits.WARM_CALLS}"),
        Fact("Calls on fresh inputs after all other checks", f"{limits.LATER_CALLS}"),
        Fact(
            "A changed element has to be followed when it moves the right result by",
            f"more than {limits.CLEAR_CHANGE:g} error budgets",
        ),
        Fact("Elements that are tried to find such a change", f"at most {limits.SITE_ATTEMPTS}"),
    ]


def list_calls() -> list[Fact]:
    """Return which calls are timed, and which stand among them."""
    calls = limits.CALLS_A_ROUND
    return [
        Fact("Rounds in which the sides alternate", f"{limits.ROUNDS}"),
        Fact("Timed calls a round and side", f"{calls}"),
        Fact("Calls before them that are dropped", f"{limits.WARM_UPS}, then {limits.LATER_WARM_UPS} a round"),
        Fact(
            "Timed calls whose results are checked, at secret places",
            f"{limits.VERIFIED_A_ROUND} of {calls} on average; all where the right result takes less than"
            f" {1000 * limits.QUICK_SECONDS:g} ms",
        ),
        Fact("Calls on hidden distributions among them", f"{limits.HIDDEN_A_ROUND} a round on average"),
        Fact("Calls under the profiler among them", f"{limits.PROFILED_A_ROUND} a round"),
        Fact("Rounds that a disturbed GPU may cost", f"at most {limits.REPEATED_ROUNDS} a session"),
        Fact("Settings of both baselines, read back each round", describe_settings()),
    ]


def describe_settings() -> str:
    """Return the settings of PyTorch under which the baselines are timed."""
    words = {name: ("off", "on")[value] if isinstance(value, bool) else value for name, value in limits.PINNED.items()}
    return ", ".join(f"{name} {word}" for name, word in words.items())


def list_decisions() -> list[Fact]:
    """Return what decides on a measured speed."""
    return [
        Fact("Interval of a speedup", f"{write_share(timing.CONFIDENCE)}, {timing.RESAMPLES:,} resamples"),
        Fact(
            "A session is repeated when the speedup is this near to the target",
            f"within {write_share(timing.NEAR_TARGET)}",
        ),
        Fact("A baseline that varies by more than this is measured again", write_share(timing.MAXIMUM_VARIATION)),
        Fact(
            "The two clocks may differ by",
            f"{write_share(timing.CLOCK_SHARE)}, plus {timing.CLOCK_MILLISECONDS:g} ms a window of queued calls",
        ),
        Fact("Empty windows that calibrate the clocks", f"{limits.EMPTY_CALLS} a round"),
        Fact(
            "Processor time that the submission may use while a baseline is timed",
            f"{limits.FREE_CPU_SECONDS:g} s, plus {write_share(limits.FREE_CPU_SHARE)} of that time",
        ),
        Fact("Share of the physical floor below which a time is not believed", write_share(floor.MARGIN)),
    ]


def list_gate_facts() -> list[tuple[str, list[Fact]]]:
    """Return the figures of the gates, group by group, each under its title."""
    return [
        ("Correctness", list_correctness()),
        ("Own work", list_structure()),
        ("Timed calls", list_calls()),
        ("Judging speed", list_decisions()),
    ]


def list_certification() -> list[Fact]:
    """Return by which rule a target follows from what a certified solution measured."""
    return [
        Fact("A target is what the slowest session but the last reached, divided by", f"{limits.ROOM:g}"),
        Fact("Rounded down to", f"{limits.SIGNIFICANT_DIGITS} digits"),
        Fact("The last session has to clear it; sessions in all", f"{limits.LEAST_SESSIONS} to {limits.MOST_SESSIONS}"),
        Fact("No target below", f"{limits.LOWEST_TARGET:.2f}x"),
        Fact("No target where a session of the certified solution is below", f"{limits.LEAST_SPEEDUP:.2f}x"),
        Fact(
            "Of the error budget, what the certified solution may take",
            f"at most {write_share(limits.LARGEST_BUDGET_RATIO)}",
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
