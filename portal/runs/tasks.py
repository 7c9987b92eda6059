"""What django-q2 calls."""

from __future__ import annotations

from portal.runs.conductor import conduct_run
from portal.runs.dispatch import name_worker
from portal.runs.lease import claim_run, reap_expired_leases


def conduct_next_run(environment: str) -> None:
    """Judge one due run of `environment`, if there is one. A wake-up too many does nothing."""
    reap_expired_leases()
    run = claim_run(environment=environment, worker=name_worker(environment))
    if run is not None:
        conduct_run(run)
