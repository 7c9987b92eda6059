"""Wake-ups. They carry nothing: a cluster that is woken looks into the runs for what is due."""

from __future__ import annotations

from django_q.brokers import get_broker
from django_q.tasks import async_task


def wake(environment: str) -> None:
    """Send one wake-up to the cluster that serves `environment`."""
    async_task("portal.runs.tasks.conduct_next_run", environment, cluster=environment)


def count_wakeups(environment: str) -> int:
    """Return how many wake-ups wait to be taken."""
    return int(get_broker(environment).queue_size())
