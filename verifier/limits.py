"""What the gates count, allow and time: their figures, without PyTorch, so that a page can show what is judged."""

from __future__ import annotations

from dataclasses import dataclass

from verifier.environment import EnvironmentSpecification

# Structure. Half of the output may follow from own kernels only through others; less is a decoy.
MINIMUM_ABLATION_SHARE = 0.5
# Elements a call that the host may always upload, or read back of a large input: scalars and small tables.
FREE_TRANSFER = 64
# An input of few elements is not read back as a whole.
MAXIMUM_FREE_READBACK = 0.25
# More of the inputs than this on the host, and the host could do the work.
MAXIMUM_READBACK = 0.10
# More of the output than this from the host, and the host has done the work.
MAXIMUM_UPLOAD = 0.25
# Names of GPU activities that a verdict keeps.
MAXIMUM_ACTIVITIES = 100
# A call that the profiler watches may run this many times as long as a timed one.
PROFILED_SLOWDOWN = 1.1

# Correctness. Calls on one address before its bytes change: a cache by address is filled then.
WARM_CALLS = 3
# Calls on fresh inputs after all other checks, half of them at new addresses.
LATER_CALLS = 6
# Elements tried until one is found that moves the oracle clearly.
SITE_ATTEMPTS = 24
# A change of one site counts only when the oracle moves by this many budgets.
CLEAR_CHANGE = 5.0

# Performance. Each side is timed in rounds that alternate with those of the others: 4 x 25 calls.
ROUNDS = 4
CALLS_A_ROUND = 25
# Calls that are dropped before the first round of a side: clocks and caches settle.
WARM_UPS = 5
# Calls that are dropped before each later round.
LATER_WARM_UPS = 2
# Empty windows of which the median tells what one exchange of messages takes.
EMPTY_CALLS = 12
# Of each round's calls, how many results are compared with the oracle on average. All, where it is quick.
VERIFIED_A_ROUND = 6
QUICK_SECONDS = 0.04
# A file can tell a timed call from a checked one, for fresh memory is not poisoned there; it cannot tell what is asked.
HIDDEN_A_ROUND = 2
# Calls that the profiler watches stand among the timed ones, so that nobody knows which they are.
PROFILED_A_ROUND = 2
# Rounds of a session that a disturbed GPU may cost.
REPEATED_ROUNDS = 3
# Processor time that a waiting process may take meanwhile; its clock counts in steps of 10 ms.
FREE_CPU_SECONDS = 0.1
FREE_CPU_SHARE = 0.05
# Settings of both baselines in full precision, read back each round.
PINNED = {"matmul_tf32": False, "cudnn_tf32": False, "float32_matmul_precision": "highest"}

# Targets. A target leaves room for what two sessions differ by: 7 %, as the benchmark's announcement has it.
ROOM = 1.07
# Below this a target could not be told from the baseline.
LOWEST_TARGET = 1.02
# A certified solution that is slower than this has too little headroom for a target.
LEAST_SPEEDUP = 1.05
# A certified solution leaves the rest of the error budget to those of others.
LARGEST_BUDGET_RATIO = 1 / 3
# Sessions after which a target is given up.
LEAST_SESSIONS = 2
MOST_SESSIONS = 3
# More digits than these would claim to be measured.
SIGNIFICANT_DIGITS = 3


@dataclass(frozen=True)
class TimeLimits:
    """Seconds that a submission has for its import, its first call and each later one, and for everything together.

    `whole` stays well below what a worker of the portal waits for a verification: who takes too long has to be seen
    here, or it would look like a fault of ours.
    """

    load: float = 40.0
    first_call: float = 180.0
    call: float = 60.0
    whole: float = 420.0


# On a GPU an autotuner may compile and time many configurations in the first call.
GPU_LIMITS = TimeLimits(load=60.0, first_call=600.0, whole=1_200.0)


def choose_limits(environment: EnvironmentSpecification) -> TimeLimits:
    """Return the limits of an environment."""
    return GPU_LIMITS if environment.timed else TimeLimits()
