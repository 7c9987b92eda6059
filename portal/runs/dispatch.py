"""Wake-ups. They carry nothing: a cluster that is woken looks into the runs for what is due.

django-q2 pickles and signs them. So a worker sends them to its own cluster alone, in a queue that has its name, and
the web sends none: no process ever unpickles what another host wrote.
"""

from __future__ import annotations

import os
import socket

from django_q.brokers import get_broker
from django_q.tasks import async_task

# Set by `manage.py worker --gpu` for its cluster.
GPU_VARIABLE = "KQ_GPU"


def name_post(environment: str) -> str:
    """Return what this process serves on its host: an environment, on one GPU where there are several."""
    gpu = os.environ.get(GPU_VARIABLE, "")
    return f"{environment}:{gpu}" if gpu else environment


def name_worker(environment: str) -> str:
    """Return the name under which this process serves `environment`, which is its queue's too."""
    return f"{socket.gethostname()}:{name_post(environment)}"


def wake(environment: str) -> None:
    """Send one wake-up to the cluster of this host that serves `environment`."""
    async_task("portal.runs.tasks.conduct_next_run", environment, cluster=name_worker(environment))


def count_wakeups(environment: str) -> int:
    """Return how many wake-ups wait to be taken here."""
    return int(get_broker(name_worker(environment)).queue_size())
