"""How long the parts of a verification may take, and how much of it is timed."""

from __future__ import annotations

from dataclasses import dataclass

from verifier.environment import EnvironmentSpecification

# Each side is timed in rounds that alternate with those of the others: 4 x 25 calls.
ROUNDS = 4


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
